"""``tracer report --targets``: one trace for many targets, in one page."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.test_portability import page_data, two_calls
from tracer.tables.loading import existing_tables


def test_the_command_line_writes_every_target_into_one_page(tmp_path: Path, tracer: Command) -> None:
    two_calls().save(tmp_path / "a step.json")
    page = tmp_path / "r.html"
    done = tracer("report", tmp_path / "a step.json", "--backend", "cuda", "--targets", "all", "-o", page)
    assert done.code == 0
    data = page_data(page.read_text())
    targets = data["targets"]
    assert isinstance(targets, list)
    assert len(targets) == 2 * len(existing_tables())
    words = shlex.split(targets[0]["command"])
    assert words[:3] == ["tracer", "report", "a step.json"]
    again = tracer("report", tmp_path / "a step.json", *words[3:], "--format", "json")
    assert json.loads(again.out)["judgement"]["target"]["torch"] == targets[0]["torch"]


@pytest.mark.parametrize("targets", ["tpu", "cuda:", "all:x"])
def test_a_wrong_target_is_one_line_on_standard_error(tmp_path: Path, tracer: Command, targets: str) -> None:
    two_calls().save(tmp_path / "t.json")
    done = tracer("report", tmp_path / "t.json", "--targets", targets, "-o", tmp_path / "r.html")
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "r.html").exists()

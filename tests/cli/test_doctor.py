"""``tracer doctor`` speaks of the process that it runs in, and starts nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.command import Command, process

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def test_a_process_that_has_its_mode_off_is_told_what_to_paste(tracer: Command) -> None:
    done = tracer("doctor")
    assert (done.code, done.err) == (0, "")
    assert "nondeterministic: torch.use_deterministic_algorithms\n  It is off, and should be on." in done.out
    assert "torch.use_deterministic_algorithms(True)\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out


@pytest.mark.parametrize(("fail_on", "code"), [("nondeterministic", 1), ("raises", 0), ("raises,nondeterministic", 1)])
def test_the_gate_fails_on_the_verdicts_that_it_names(fail_on: str, code: int, tracer: Command) -> None:
    done = tracer("doctor", "--fail-on", fail_on)
    assert (done.code, done.err) == (code, "")


def test_each_setting_stands_in_json_with_its_verdict(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE, ":16:8")
    done = tracer("doctor", "--backend", "cuda", "--format", "json")
    found = json.loads(done.out)
    assert found["outlook"]["backends"] == ["cuda"]
    by_row = {one["row"]: one for one in found["settings"]}
    assert by_row["environment-deterministic-mode"]["verdict"] == "nondeterministic"
    assert by_row["environment-deterministic-mode"]["value"] == "off"
    workspace = by_row["environment-cublas-workspace"]
    assert (workspace["value"], workspace["is_set"], workspace["verdict"]) == (":16:8", True, "deterministic")


def test_a_backend_that_is_not_here_can_be_asked_for(tracer: Command) -> None:
    assert "cudnn.deterministic" not in tracer("doctor", "--all", "--backend", "cpu").out
    assert "cudnn.deterministic" in tracer("doctor", "--all", "--backend", "cuda").out


def test_it_reads_the_very_process(tracer: Command) -> None:
    torch.use_deterministic_algorithms(True)
    done = tracer("doctor", "--backend", "cpu", "--fail-on", "nondeterministic")
    assert done.code == 0
    assert "nondeterministic:" not in done.out


def test_no_device_is_started(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in ((torch.cuda, "_lazy_init"), (torch.cuda, "device_count"), (torch.xpu, "_lazy_init")):
        monkeypatch.setattr(place, name, lambda *_: pytest.fail("a device was started"))
    done = tracer("doctor", "--all")
    assert (done.code, done.err) == (0, "")


def test_without_torch_it_says_so_and_checks_the_rest(tmp_path: Path) -> None:
    code = (
        "import sys, os\nos.environ.pop('PYTHONHASHSEED', 0)\nsys.modules['torch'] = None\n"
        "from tracer.cli.main import main\nmain(['doctor', '--all'])"
    )
    done = process("-c", code, cwd=tmp_path, **{WORKSPACE: ":4096:8"})
    assert (done.code, done.err) == (0, "")
    assert "conditional: PYTHONHASHSEED" in done.out
    assert "torch cannot be imported here" in done.out
    assert f"= {WORKSPACE}" in done.out
    assert "could not be read here" in done.out
    assert "cudnn.benchmark" not in done.out

"""Paths that are not UTF-8, and folders that go away: the trace of a run that ended is there all the same."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.command import tracer_process
from tracer.trace import Trace
from tracer.trace.values import read_values

NET = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(3).index_add_(0, torch.tensor([0, 0, 0]), x)
"""
ODD = os.fsdecode(b"\xe9")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name is no UTF-8, with a script, and a module beside it."""
    made = tmp_path / f"d{ODD}r"
    try:
        made.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    (made / f"tr{ODD}.py").write_text(NET + "\nNet()(torch.ones(3))\nprint('trained')\n")
    return made


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), marks=pytest.mark.slow),
        ("--values", "--with-source", "--data-facts", "--keep-inputs", "index_add_"),
    ],
)
def test_a_run_below_a_folder_of_any_name_leaves_its_trace(folder: Path, values: tuple[str, ...]) -> None:
    output = f"o{ODD}.trace.json"
    done = tracer_process("run", *values, "-o", output, f"tr{ODD}.py", cwd=folder)
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "o\\udce9.trace.json: " in done.err
    places = {call.location for call in Trace.load(folder / output).calls}
    assert "tr\\udce9.py:5" in places
    if values:
        read = read_values(folder / f"o{ODD}.values")
        assert (read.partial, {group.location for group in read.groups} <= places) == ("", True)
    for line in ("report", output), ("check", output), ("diff", output, output):
        again = tracer_process(*line, cwd=folder)
        assert (again.code in (0, 1), "error" in again.err) == (True, False)


def test_a_path_of_any_name_from_outside_leaves_its_trace(folder: Path) -> None:
    done = tracer_process("run", "--values", folder / f"tr{ODD}.py", cwd=folder.parent)
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "d\\udce9r/tr\\udce9.py:5" in {call.location for call in Trace.load(folder.parent / "trace.json").calls}
    assert (folder.parent / "trace.values").stat().st_size


def test_a_run_whose_folder_goes_away_names_where_its_trace_is(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import shutil, torch\ntorch.ones(2) + 1\nshutil.rmtree('out')\nopen('out', 'w').close()\nprint('trained')\n"
    )
    (tmp_path / "out").mkdir()
    done = tracer_process("run", "-o", "out/t.json", "s.py", cwd=tmp_path)
    assert (done.code, done.out) == (2, "trained\n")
    (line,) = done.err.splitlines()
    found = re.search(r"cannot write \S+t\.json: File exists; it is in (\S+) instead", line)
    assert found, line
    assert Trace.load(found[1]).call_count == 2
    Path(found[1]).unlink()

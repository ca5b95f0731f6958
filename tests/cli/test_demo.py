"""``tracer demo``: one command from nothing to a report."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Command, tracer_process
from tracer.bundled import make_training
from tracer.trace import Trace


def test_the_demo_writes_its_files_and_says_what_to_open(tmp_path: Path, tracer: Command) -> None:
    done = tracer_process("demo", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.csv", "report.html", "step.trace.json"]
    assert "Open report.html in a browser" in done.out
    assert "\x1b" not in done.out
    trace = Trace.load(tmp_path / "step.trace.json")
    assert trace.partial == ""
    assert {"captions.words", "down.0", "head"} <= {one.module for one in trace.calls}
    assert all(str(tmp_path) not in one.location for one in trace.calls)
    again = tracer("report", tmp_path / "step.trace.json", "--backend", "cuda", "-o", tmp_path / "again.csv")
    assert again.code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "report.csv").read_bytes()


def test_the_demo_writes_where_it_is_told(tmp_path: Path, tracer: Command) -> None:
    done = tracer("demo", "--output-dir", tmp_path / "new" / "place")
    assert done.code == 0
    assert len(list((tmp_path / "new" / "place").iterdir())) == 3


def test_the_bundled_step_trains() -> None:
    training = make_training()
    losses = [training.step() for _ in range(4)]
    assert losses[-1] < losses[0]

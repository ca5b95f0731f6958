"""``tracer run --steps``: the trace is there when the recording is over, and whole at every moment after."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.command import SCRIPTS, tracer_process
from tests.support.slow import slow_unless
from tracer.runner.outcome import ScriptRecording
from tracer.runner.script import StepRange
from tracer.trace import Trace

#: What is left of the script is lost: neither exit handlers nor ``finally`` run.
ENDS = {
    "os._exit": ("os._exit(7)", 7),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


def training(tmp_path: Path, *end: str) -> Path:
    """A script that trains for four steps and then does ``end``."""
    script = tmp_path / "s.py"
    script.write_text("\n".join(("import os, signal", (SCRIPTS / "train.py").read_text(), *end)))
    return script


@pytest.mark.parametrize("how", slow_unless({"SIGKILL"}, ENDS))
def test_what_kills_the_script_after_its_recorded_steps_leaves_the_trace(tmp_path: Path, how: str) -> None:
    line, code = ENDS[how]
    done = tracer_process("run", "--with-source", "--steps", "1:2", training(tmp_path, line).name, cwd=tmp_path)
    assert done.code == code, done.err
    assert done.err.count("next: tracer report trace.json") == 1
    trace = Trace.load(tmp_path / "trace.json")
    assert trace.partial == ""
    assert trace.sources[0].optimizer_steps == 1
    assert trace.generators[0].name == "cpu"
    assert "loss.backward()" in trace.source_lines.values()
    assert [path.name for path in tmp_path.glob(".trace.json*")] == []


def test_what_the_script_does_after_its_recorded_steps_is_in_the_trace_at_the_end(tmp_path: Path) -> None:
    end = (
        "from pathlib import Path",
        "early = Path('trace.json').read_bytes()",
        "Path('early.json').write_bytes(early)",
        "torch.backends.cudnn.benchmark = True",
        "for _ in torch.utils.data.DataLoader(torch.arange(4.0), shuffle=True): pass",
    )
    done = tracer_process("run", "--steps", "0:1", training(tmp_path, *end).name, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.err.count("next: tracer report trace.json") == 1, "said once, though it was written twice"
    early, late = Trace.load(tmp_path / "early.json"), Trace.load(tmp_path / "trace.json")
    assert early.calls == late.calls
    assert early.partial == late.partial == ""
    assert not early.loaders
    assert late.loaders[0].shuffles
    name = "torch.backends.cudnn.benchmark"
    assert [one.name for one in late.events if one.name == name] == [name]
    assert [one for one in early.events if one.name == name] == []


class _Full:
    """A window whose steps were recorded."""

    complete = True


def test_a_signal_that_comes_while_the_trace_is_written_early_waits_and_then_does_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = ScriptRecording("s", tmp_path / "t.json", Path("t.json"), StepRange(0, 1), rank=None, exit_after=False)
    recording._window = _Full()  # type: ignore[assignment]
    writing = []

    def write(self: ScriptRecording, window: object, partial: str, *, rescue: bool) -> None:
        writing.append(self.is_writing)
        self.waiting.append(signal.SIGTERM)

    sent = []
    monkeypatch.setattr(ScriptRecording, "_write", write)
    monkeypatch.setattr(ScriptRecording, "_closing_line", lambda *_: "")
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number, recording.is_writing)))
    recording._write_early()
    assert writing == [True]
    assert sent == [(os.getpid(), signal.SIGTERM, False)]


def test_a_pipe_gets_one_trace_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    recording = ScriptRecording("s", pipe, pipe, StepRange(0, 1), rank=None, exit_after=False)
    recording._window = _Full()  # type: ignore[assignment]
    monkeypatch.setattr(ScriptRecording, "_write", lambda *_: pytest.fail("a pipe was written to early"))
    recording._write_early()


def test_a_script_that_is_killed_leaves_no_trace_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("of an earlier run")
    (tmp_path / "s.py").write_text("import os\nos._exit(7)")
    assert tracer_process("run", "s.py", cwd=tmp_path).code == 7
    assert not (tmp_path / "trace.json").exists()
    (tmp_path / "trace.json").write_text("of an earlier run")
    assert tracer_process("run", "missing.py", cwd=tmp_path).code == 2
    assert (tmp_path / "trace.json").exists(), "nothing was run"

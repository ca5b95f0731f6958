"""What ``tracer run`` sees beside the ops: from the script's first line on, and across windows of steps."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.command import Command, tracer_process
from tracer import Trace
from tracer.names import EventKind
from tracer.trace.records import Event

NAMED = "OMP_NUM_THREADS"


def run(folder: Path, script: str, *options: str, **environ: str) -> Trace:
    """The trace of a script of these lines."""
    (folder / "script.py").write_text(script)
    done = tracer_process("run", "-o", "trace.json", *options, "script.py", cwd=folder, **environ)
    assert done.code == 0, done.err
    return Trace.load(folder / "trace.json")


def brief(events: tuple[Event, ...]) -> list[tuple[str, str, str, bool]]:
    return [(str(event.kind), event.name, event.location, event.while_recording) for event in events]


TRAINS = """\
import os
os.environ["OMP_NUM_THREADS"] = "1"
import torch
os.environ["OMP_NUM_THREADS"] = "2"
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 2:
        torch.use_deterministic_algorithms(True)
    loss = model(torch.ones(1, 2)).sum()
    loss.backward()
    optimizer.step()
"""


def test_the_watch_begins_before_the_scripts_first_line(tmp_path: Path) -> None:
    trace = run(tmp_path, TRAINS)
    assert brief(tuple(event for event in trace.events if event.kind is not EventKind.SEED)) == [
        ("variable", NAMED, "script.py:2", False),
        ("first-use", "torch", "script.py:3", False),
        ("variable", NAMED, "script.py:4", True),
        ("setting", "torch.use_deterministic_algorithms", "script.py:9", True),
    ]
    assert trace.watched_from_start
    assert [event.after_calls for event in trace.events if event.kind is EventKind.SETTING] == [True]
    assert trace.environment.variables[NAMED] == "2"


def test_the_watch_goes_on_between_windows_of_steps(tmp_path: Path) -> None:
    trace = run(tmp_path, TRAINS, "--steps", "1:2")
    (setting,) = (event for event in trace.events if event.kind is EventKind.SETTING)
    assert (setting.location, setting.while_recording) == ("script.py:9", False)
    assert ("variable", NAMED, "script.py:4", False) in brief(trace.events)


def test_a_script_without_torch_has_its_variables_noted(tmp_path: Path) -> None:
    trace = run(tmp_path, f"import os\nos.environ[{NAMED!r}] = '3'\n")
    assert ("variable", NAMED, "script.py:2", False) in brief(trace.events)


def test_a_forked_child_notes_nothing(tmp_path: Path) -> None:
    script = (
        "import os, torch\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    os.environ[{NAMED!r}] = '5'\n"
        "    torch.use_deterministic_algorithms(True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "torch.ones(2).sum()\n"
    )
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    trace = run(tmp_path, script)
    assert [event for event in trace.events if event.kind in (EventKind.VARIABLE, EventKind.SETTING)] == []


def test_what_a_script_sees_of_the_environment_is_the_same(tmp_path: Path) -> None:
    script = "import os, sys\nos.environ['A_VARIABLE'] = 'x'\nos.system('echo $A_VARIABLE')\n"
    (tmp_path / "script.py").write_text(script)
    done = tracer_process("run", "script.py", cwd=tmp_path)
    assert done.out == "x\n"


def test_a_setter_that_fails_ends_the_script_as_it_would(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\ntorch.set_num_threads(-1)\n")
    done = tracer_process("run", "script.py", cwd=tmp_path)
    assert done.code == 1
    assert 'File "' in done.err
    assert 'script.py", line 2' in done.err
    assert os.path.join("tracer", "recording") not in done.err


def test_a_variable_that_the_system_refuses_ends_the_script_as_it_would(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os\nos.environ['A'] = 'a\\0b'\n")
    done = tracer_process("run", "script.py", cwd=tmp_path)
    assert done.code == 1
    assert "ValueError: embedded null byte" in done.err
    assert os.path.join("tracer", "recording") not in done.err
    assert (tmp_path / "trace.json").exists()


def test_nothing_is_watched_when_the_script_has_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tracer = Command(capsys, monkeypatch)
    before = os.putenv, os.unsetenv
    (tmp_path / "script.py").write_text("import torch\ntorch.ones(2).sum()\n")
    assert tracer("run", "-o", tmp_path / "trace.json", tmp_path / "script.py").code == 0
    assert (os.putenv, os.unsetenv) == before
    assert tracer("run", "-o", tmp_path / "trace.json", tmp_path / "no_such_script.py").code == 2
    assert (os.putenv, os.unsetenv) == before


def test_a_recorder_by_hand_watches_while_it_records_only() -> None:
    from tracer import DeterminismTracer

    before = random.seed
    with DeterminismTracer() as recorder:
        assert random.seed is not before
    assert random.seed is before
    assert not recorder.trace.watched_from_start

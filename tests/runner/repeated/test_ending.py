"""How ``tracer repeat`` ends before its runs do: by signals, and with it the processes and folders of its runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import PLAIN
from tracer.runner.repeated import launching
from tracer.runner.repeated.launching import Order
from tracer.runner.script import StepRange, Task

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
#: Says where it stands by files, and its process ids with it; starts a process that never ends by itself.
LONG = """\
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.sleep(1)"], start_new_session=True)
with open("pids.part", "w") as stream:
    stream.write(f"{os.getpid()} {child.pid}")
os.rename("pids.part", "pids")
while True:
    time.sleep(0.05)
"""
#: The first run ends at once, the second makes the same calls and takes its time.
SECOND_IS_LONG = """\
import os, time
import torch
x = torch.ones(4)
is_second = os.path.exists("first")
for number in range(2000):
    x = x + 1
    if is_second:
        open("second", "w").close()
        time.sleep(0.05)
open("first", "w").close()
"""


def _listens() -> None:
    """The signals reach it, though ``nohup`` and a shell's background jobs ignore some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def repeat(tmp_path: Path) -> Iterator[Started]:
    """``repeat(TEXT, *OPTIONS)`` starts ``tracer repeat`` on a script; what it leaves is killed after the test."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "tmp").mkdir()

    def start(text: str, *options: str) -> subprocess.Popen[str]:
        (tmp_path / "script.py").write_text(text)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "tracer", "repeat", *options, "script.py"],
                cwd=tmp_path,
                env={**PLAIN, "TMPDIR": str(tmp_path / "tmp")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_listens,
            )
        )
        return started[-1]

    yield start
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()] if (tmp_path / "pids").exists() else []
    for pid in (*pids, *(one.pid for one in started if one.poll() is None)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for one in started:
        one.communicate()


def until(what: Callable[[], object]) -> None:
    """Wait for it, for as long as nobody would."""
    late = time.monotonic() + 120
    while not what():
        assert time.monotonic() < late
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Does a process run?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow), pytest.param("SIGHUP", marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_runs_and_what_was_compared_is_reported(repeat: Started, tmp_path: Path, name: str) -> None:
    started = repeat(SECOND_IS_LONG, "--runs", "3", "--format", "text,json")
    until((tmp_path / "second").exists)
    started.send_signal(getattr(signal, name))
    out, err = started.communicate(timeout=60)
    assert started.returncode == 3, err
    told = json.loads((tmp_path / "repeat/repeat.json").read_text())
    assert (told["agrees"], told["ended_by"], told["partial"]) == (True, f"ended by {name}", f"ended by {name}")
    assert told["calls_compared"] > 0
    assert [run["stopped"] for run in told["recordings"]] == [False, True]
    assert f"ended by {name} before all runs were made" in " ".join(out.split())
    assert "internal error" not in err


@pytest.mark.parametrize("ignores", [False, True])
def test_a_run_that_does_not_end_is_killed_with_what_it_started(repeat: Started, tmp_path: Path, ignores: bool) -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignores else ""
    started = repeat(ignoring + LONG)
    until((tmp_path / "pids").exists)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 3, err
    assert "ended by SIGTERM before two runs could be compared" in err
    assert not [pid for pid in pids if lives(pid)]


def test_when_repeat_is_killed_its_run_is_killed_too(repeat: Started, tmp_path: Path) -> None:
    started = repeat(LONG)
    until((tmp_path / "pids").exists)
    script, _ = map(int, (tmp_path / "pids").read_text().split())
    started.kill()
    assert started.wait(60) == -signal.SIGKILL
    until(lambda: not lives(script))


@pytest.mark.parametrize(("end", "code"), [("os._exit(7)", 7), ("os.kill(os.getpid(), signal.SIGTERM)", -15)])
def test_a_run_keeps_its_own_exit_code_(repeat: Started, tmp_path: Path, end: str, code: int) -> None:
    started = repeat(f"import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\n{end}\n")
    _, err = started.communicate(timeout=60)
    assert f"run 1 ended with exit code {code} before anything was recorded" in err


def test_a_run_that_ends_after_a_step_leaves_a_thread_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("""
import threading
import torch
def warm():
    while True:
        torch.ones(200, 200) @ torch.ones(200, 200)
threading.Thread(target=warm, daemon=True).start()
w = torch.ones(3, requires_grad=True)
for step in range(4):
    w.sum().backward()
    torch.optim.SGD([w], 0.1).step()
""")
    monkeypatch.chdir(tmp_path)
    task = Task(target="train.py", args=(), as_module=False, steps=StepRange(0, 2), exit_after_steps=True)
    assert launching.run(Order(task=task, output=str(tmp_path / "run.json")), {}, 0) == (0, False)

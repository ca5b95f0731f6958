"""Signals at random moments, and what became of each.

A trial starts ``tracer run`` or ``tracer repeat`` on a training with a loader's worker, in a session and a folder for
temporary files of its own, sends one signal, and says what is wrong with what is left. The moments lie between the
start of Python and the end of the script, so that many of them meet the import of torch.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.command import PLAIN
from tracer.errors import TracerError
from tracer.trace import Trace
from tracer.trace.values import read_values

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL")
COMMANDS = {
    "run": ("run", "-o", "out/trace.json", "--values", "train.py"),
    "repeat": ("repeat", "-o", "out", "--format", "text,json", "--vary", "environment", "train.py"),
}
SCRIPT = """\
import time
import torch
print("begins", flush=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.arange(160.0).reshape(40, 4)
for batch in torch.utils.data.DataLoader(data, batch_size=2, num_workers=1):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.05)
print("ends", flush=True)
"""
#: Seconds within which everything is to be over, and after which nothing is waited for any more.
SOON, HANGS = 10.0, 60.0


class Trial(NamedTuple):
    """One signal to one command."""

    command: str
    signal: str
    moment: float
    """Where between the start and the end of an undisturbed run it is sent: from 0 to 1."""


class Ended(NamedTuple):
    """What became of it."""

    code: int
    phase: str
    """What the command was doing when the signal came."""
    seconds: float
    """From the signal until no process was left."""
    wrong: tuple[str, ...]
    said: str


def trials(count: int, seed: int = 20) -> list[Trial]:
    """``count`` of them: commands and signals in turn, moments at random."""
    moments = random.Random(seed)
    kinds = [(command, name) for name in SIGNALS for command in COMMANDS]
    return [Trial(*kinds[number % len(kinds)], moments.random()) for number in range(count)]


def duration(command: str) -> float:
    """Seconds that ``command`` takes undisturbed."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        process = _started(command, Path(folder))
        process.communicate()
        assert process.returncode == 0
        return time.monotonic() - began


def send(trial: Trial, seconds: float) -> Ended:
    """Make ``trial`` with a command that takes so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        process = _started(trial.command, Path(folder))
        time.sleep(trial.moment * seconds)
        was_over = process.poll() is not None
        with suppress(ProcessLookupError):
            process.send_signal(getattr(signal, trial.signal))
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(HANGS)
        while _session(process.pid) and time.monotonic() - began < HANGS:
            time.sleep(0.05)
        took = time.monotonic() - began
        left = _session(process.pid)
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        out, err = process.communicate()
        phase = _phase(out, err, was_over)
        wrong = [
            *_wrong_code(trial, process.returncode, phase, out, err),
            *_wrong_files(trial, Path(folder), phase),
            *(["processes are left"] if left else []),
            *(f"said: {line}" for line in err.splitlines() if "internal error" in line),
        ]
        return Ended(process.returncode, phase, took, tuple(wrong), out + err)


def _started(command: str, folder: Path) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    (folder / "out").mkdir()
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "tracer", *COMMANDS[command]],
        cwd=folder,
        env={**PLAIN, "TMPDIR": str(folder / "tmp"), "TORCH_WARM_POOL": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_listens,
    )


def _listens() -> None:
    """The signals reach it, though ``nohup`` and a shell's background jobs ignore some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _session(number: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == number and fields[0] != b"Z":
                found.append(int(name))
    return found


def _phase(out: str, err: str, was_over: bool) -> str:
    if was_over:
        return "over"
    begun, ended = out.count("begins"), out.count("ends")
    runs = sum(f"tracer: {name}" in err for name in ("run 1", "run 2", "environment"))
    if begun > ended:
        return "training"
    if begun < runs:
        return "starting a run"
    return "after a run" if ended else "starting"


def _wrong_code(trial: Trial, code: int, phase: str, out: str, err: str) -> list[str]:
    """What Python alone would end with; 3 for a repeat that was cut short once it had begun."""
    number = getattr(signal, trial.signal)
    fits = {-number}
    if trial.signal == "SIGINT" and "Fatal Python error: init_" in err:  # Python's own start was interrupted
        fits |= {1}
    if trial.command == "repeat" and trial.signal != "SIGKILL":
        fits |= {3}
        if "tracer: run 1" in err:
            fits -= {-number}
    if phase == "over" or "tracer: wrote" in err or ("ends" in out and trial.command == "run"):
        fits |= {0, -number}  # everything was done by then
    return [] if code in fits else [f"exit code {code}"]


def _wrong_files(trial: Trial, folder: Path, phase: str) -> list[str]:
    wrong = []
    for path in (folder / "out").iterdir():
        try:
            is_of_lines = re.search(r"\.lines(\.\d+)*$", path.name) is not None
            if path.name.startswith(".") or (path.suffix not in (".json", ".values") and not is_of_lines):
                wrong.append(f"{path.name} is left")
            elif path.suffix == ".values" and path.stat().st_size:
                read_values(path)
            elif path.suffix == ".json" and path.name != "repeat.json":
                Trace.load(path)
        except TracerError as problem:
            wrong.append(str(problem))
    if trial.command == "run" and phase == "training" and trial.signal != "SIGKILL":
        wrong += [] if (folder / "out" / "trace.json").exists() else ["the trace is missing"]
    return wrong + [f"tmp/{path.name} is left" for path in (folder / "tmp").glob("tracer-*")]

"""``tracer compare``: one script in two configurations, and the yardstick that the first makes of itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from tracer.divergence.jobs import Job, read_job
from tracer.divergence.magnitudes import Comparison, Side
from tracer.errors import EndedEarly, TraceError, UsageError
from tracer.names import Training
from tracer.plain import say
from tracer.recording.options import UNSHAKEN, PlaceOptions
from tracer.runner.configurations.yardstick import answered
from tracer.runner.repeated import launching
from tracer.runner.repeated.child import COULD_NOT_BEGIN
from tracer.runner.repeated.scratch import recordings_in, remove_run, scratch_of
from tracer.runner.repeated.task import Order, Task
from tracer.trace.paths import values_path

#: Seconds that another interpreter has to say what it has.
_PATIENCE = 120
_ASK = "import torch, tracer; print(torch.__version__, tracer.__version__)"


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one side that the other lacks."""

    args: tuple[str, ...] = ()
    """Before the arguments that both have."""
    variables: dict[str, str] = {}
    python: str = sys.executable


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A script, and its two configurations."""

    task: Task
    """With the arguments that both have."""
    first: Configuration
    second: Configuration
    folder: Path
    yardstick_runs: int = 3
    children: bool | None = None
    """Compare child processes too; ``None``: if the first run started some, and trained nothing itself."""


def compare_script(asked: Asked) -> Comparison:
    """Run both configurations, and the shaken ones that the answer needs.

    Raises ``UsageError`` where a side cannot begin, ``TraceError`` where nothing was recorded, and ``EndedEarly`` where
    a signal ended it.
    """
    for name, side in (("a", asked.first), ("b", asked.second)):
        if side.python != sys.executable:
            _check_python(name, side.python)
    for left in (asked.folder / "compare.json", asked.folder / "compare.html", *asked.folder.glob("*-shaken-*")):
        left.unlink(missing_ok=True)  # would be taken for this one's, if it is killed
    for name in ("a", "a-again", "a-decided", "b", "b-again"):
        remove_run(asked.folder / f"{name}.json")
    with scratch_of(asked.folder) as scratch:
        return answered(_Runs(asked, scratch).record, asked.yardstick_runs)


class _Runs:
    """Runs of both configurations, each a process of its own that leaves a file in the folder."""

    def __init__(self, asked: Asked, scratch: Path) -> None:
        self._asked = asked
        self._scratch = scratch
        self._runs = 0
        self._children = asked.children
        self._names: set[str] = set()

    def record(self, side: Side, places: PlaceOptions = UNSHAKEN) -> Job:
        """Make one run: a ``Recording``."""
        job = read_job(self._run(side, places))
        if self._children is None:
            self._children = job.training is Training.ELSEWHERE
            if self._children and not launching.ENDING.by:
                self._names.clear()
                say("tracer: a trained nothing itself, and started processes: once more, recording them too")
                return self.record(side, places)
        return job

    def _run(self, letter: Side, places: PlaceOptions) -> Path:
        """Make one run; its trace."""
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        name, words = _named(letter, places)
        if name in self._names:
            name, words = f"{name}-again", f"{words}, once more"
        self._names.add(name)
        output = recordings_in(self._scratch) / f"{name}.json"
        remove_run(output)
        side = self._asked.first if letter == "a" else self._asked.second
        task = msgspec.structs.replace(self._asked.task, args=(*side.args, *self._asked.task.args))
        order = Order(
            task=task,
            output=os.path.abspath(output),
            magnitudes=True,
            places=places,
            children=bool(self._children),
            scratch=str(self._scratch),
        )
        say(f"tracer: {words}")
        code, _ = launching.run(order, side.variables, self._runs, python=side.python)
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"{name} could not begin", hint="the line above says why")
        if code:
            say(f"tracer: {name} {_how_it_ended(code)}")
        self._runs += 1
        is_recorded = values_path(output).exists()
        if not is_recorded or (code and all(own.places.is_empty for own in read_job(output).processes.values())):
            if not code:
                window = f"{task.start}:{'' if task.stop is None else task.stop}"
                raise TraceError(f"{name} ended before --steps {window} began", hint="choose steps that it makes")
            raise TraceError(
                f"{name} {_how_it_ended(code)} before anything was recorded", hint="its own words are above"
            )
        return output


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"


def _named(side: Side, places: PlaceOptions) -> tuple[str, str]:
    """Return the file name of a run and its description."""
    name: str = side
    words: str = side
    if places.shake is not None:
        inside = places.shake_in and not places.calls_of
        name += f"-shaken{'-inside' if inside else ''}{'' if places.calls_of else f'-{places.shake}'}"
        words += f", shaken{f' inside {places.shake_in} alone' if places.shake_in else ''} ({places.shake})"
    elif places.decides_as and side == "a" and not places.calls_of:
        name, words = f"{name}-decided", f"{words}, deciding as the second does"
    if places.calls_of:
        return f"{name}-calls", f"{words}, call by call"
    return (f"{name}-rows", f"{words}, its batches as rows of the whole") if places.rows_of else (name, words)


def _check_python(side: str, python: str) -> None:
    """Raise ``UsageError`` where that interpreter has no torch or no tracer."""
    hint = f"install both there: {python} -m pip install torch determinism-tracer"
    try:
        answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UsageError(
            f"--python-{side} {python} cannot be run: {problem}", hint="name a Python interpreter"
        ) from None
    if answer.returncode:
        missing = answer.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"--python-{side} {python} cannot import torch and tracer ({missing})", hint=hint)

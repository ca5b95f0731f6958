"""``tracer compare``: one script in two configurations, and the yardstick that the first makes of itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from tracer.divergence.magnitudes import CallDifference, CompareVerdict, Comparison, compared, first_call
from tracer.errors import EndedEarly, TraceError, UsageError
from tracer.names import PlaceKind
from tracer.plain import say
from tracer.runner.configurations.in_process import FURTHER
from tracer.runner.repeated import launching
from tracer.runner.repeated.child import COULD_NOT_BEGIN
from tracer.runner.repeated.task import Order, Task
from tracer.trace.paths import values_path
from tracer.trace.values import read_magnitudes

#: Seconds that another interpreter has to say what it has.
_PATIENCE = 120
_ASK = "import torch, tracer; print(torch.__version__, tracer.__version__)"


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What one side has that the other has not."""

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


def compare_script(asked: Asked) -> Comparison:
    """Run both configurations, and the shaken ones that the answer needs.

    Raises ``UsageError`` where a side cannot begin, ``TraceError`` where nothing was recorded, and ``EndedEarly`` where
    a signal ended it.
    """
    for name, side in (("a", asked.first), ("b", asked.second)):
        if side.python != sys.executable:
            _check_python(name, side.python)
    with tempfile.TemporaryDirectory(prefix="tracer-") as scratch:
        return _Comparing(asked, Path(scratch)).go()


class _Comparing:
    def __init__(self, asked: Asked, scratch: Path) -> None:
        self._asked = asked
        self._scratch = scratch
        self._runs = 0

    def go(self) -> Comparison:
        first = self._run("a", self._asked.first)
        second = self._run("b", self._asked.second)
        comparison = compared(read_magnitudes(first), read_magnitudes(second))
        shaken: list[Path] = []
        of_second: list[Path] = []
        needed = self._asked.yardstick_runs if comparison.verdict is CompareVerdict.NOT_JUDGED else 0
        second_is_narrower = comparison.second_is_narrower
        seed = 0
        while needed:
            for _ in range(needed):
                seed += 1
                shaken.append(self._run(f"a-shaken-{seed}", self._asked.first, shake=seed))
                if second_is_narrower:
                    of_second.append(self._run(f"b-shaken-{seed}", self._asked.second, shake=seed))
            comparison = compared(
                read_magnitudes(first),
                read_magnitudes(second),
                list(map(read_magnitudes, shaken)),
                list(map(read_magnitudes, of_second)),
            )
            is_undecided = comparison.verdict is CompareVerdict.UNDECIDED
            needed = FURTHER if is_undecided and len(shaken) < self._asked.yardstick_runs + FURTHER else 0
        return msgspec.structs.replace(comparison, call=self._first_call(comparison))

    def _first_call(self, comparison: Comparison) -> CallDifference | None:
        """The op with which a faulty module begins to differ, if it runs eagerly in both."""
        first = comparison.first
        if first is None or first.kind is not PlaceKind.OUTPUT or comparison.is_given:
            return None
        paths = [
            self._run(f"{name}-calls", side, shake=shake, calls_of=first.module)
            for name, side, shake in (
                ("a", self._asked.first, None),
                ("b", self._asked.second, None),
                ("a-shaken", self._asked.first, 1),
            )
        ]
        one, two, yardstick = map(read_magnitudes, paths)
        return first_call(one, two, yardstick, first)

    def _run(self, name: str, side: Configuration, *, shake: int | None = None, calls_of: str = "") -> Path:
        """Make one run; the file of its magnitudes."""
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        output = self._asked.folder / f"{name}.json"
        for left in (output, values_path(output)):
            left.unlink(missing_ok=True)
        task = msgspec.structs.replace(self._asked.task, args=(*side.args, *self._asked.task.args))
        order = Order(
            task=task,
            output=os.path.abspath(output),
            magnitudes=True,
            shake=shake,
            calls_of=calls_of,
            scratch=str(self._scratch),
        )
        say(
            f"tracer: {_WORDS.get(name, name)}"
            if shake is None
            else f"tracer: {name.partition('-')[0]}, shaken ({shake})"
        )
        code, _ = launching.run(order, side.variables, self._runs, python=side.python)
        if launching.ENDING.by:
            raise EndedEarly(f"{launching.ENDING.by} before all runs were made", hint="run it again")
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"{name} could not begin", hint="the line above says why")
        if code:
            say(f"tracer: {name} ended with exit code {code}")
        self._runs += 1
        path = values_path(output)
        if not path.exists():
            raise TraceError(
                f"{name} ended with exit code {code} before anything was recorded", hint="its own words are above"
            )
        return path


_WORDS = {"a": "a", "b": "b", "a-calls": "a, call by call", "b-calls": "b, call by call"}


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

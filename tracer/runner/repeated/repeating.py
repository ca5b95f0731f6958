"""``tracer repeat``: the runs one after another, each held against the first, and what all of them together show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tracer.divergence import Divergence, Recording, compare_recordings, read_recording
from tracer.divergence.repeated import Arm, Repeated, Run, not_followed, outcomes, with_arms
from tracer.errors import EndedEarly, TraceError, TracerError, UsageError
from tracer.names import Settings
from tracer.plain import say
from tracer.report import Report
from tracer.runner.repeated import launching
from tracer.runner.repeated.arms import CANNOT, SAID, variables_of, without_effect
from tracer.runner.repeated.child import COULD_NOT_BEGIN
from tracer.runner.repeated.circumstances.planned import variables_among
from tracer.runner.repeated.task import Order, Task
from tracer.session import judge
from tracer.tables.settings.declared import CUBLAS_VARIABLE, CUBLAS_WORKSPACES, MODE
from tracer.trace.records import FactValue

PLANNED = "planned"
#: What ``--settings`` takes besides ``planned``: settings that are made in every run.
NAMED: Mapping[str, Mapping[str, FactValue]] = {
    Settings.RECORDED.value: {},
    Settings.WARN.value: {MODE: "warn", CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]},
    Settings.DETERMINISTIC.value: {MODE: "on", CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]},
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and what to vary."""

    task: Task
    folder: Path
    runs: int = 2
    arms: tuple[Arm, ...] = ()
    settings: str = Settings.RECORDED.value
    first: bool = False
    """End a run as soon as it has parted from the first."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and the report on the first run that goes with it."""

    repeated: Repeated
    report: Report | None = None
    """``None`` where the first run left no trace."""


class _Series:
    """Runs of one task under the same settings."""

    def __init__(self, asked: Asked, prefix: str, sets: Mapping[str, FactValue], started: int) -> None:
        self.asked = asked
        self.prefix = prefix
        self.sets = dict(sets)
        self.started = started
        """Runs that were started before: each has a number of its own in a distributed job."""
        self.runs: list[Run] = []
        self.recordings: dict[str, Recording] = {}
        self.compared: dict[Arm, list[Divergence]] = {}
        self.names: dict[int, str] = {}
        self.notes: dict[Arm, str] = {}
        self.report: Report | None = None
        self.ended_by = ""
        """The signal that ended it before all runs were made: ``ended by SIGTERM``."""

    def go(self) -> None:
        """Make every run and every comparison, until a signal is to end this process.

        Raises ``UsageError`` where there is nothing to run, and ``EndedEarly`` where nothing was compared by then.
        """
        first = self._run(f"{self.prefix}1", "run 1", Arm.UNVARIED)
        base = self._recording(first)
        if base is None:
            raise self._nothing_recorded(first)
        if base.trace is not None and not self.ended_by:
            self.report = judge(base.trace)
        others = [(f"run {number}", str(number), Arm.UNVARIED) for number in range(2, self.asked.runs + 1)]
        for name, suffix, arm in (*others, *((arm.value, arm.value, arm) for arm in self.asked.arms)):
            self.ended_by = self.ended_by or launching.ENDING.by
            if not self.ended_by:
                self._compare(base, self._run(f"{self.prefix}{suffix}", name, arm, base))
        if not self.compared:
            raise EndedEarly(f"{self.ended_by} before two runs could be compared", hint="run it again")

    def _compare(self, base: Recording, run: Run) -> None:
        other = self._recording(run)
        if other is None and not self.ended_by:
            raise self._nothing_recorded(run)
        if other is not None:
            findings = self.report.findings if self.report is not None else None
            divergence = compare_recordings(base, other, may_resume=False, findings=findings)
            self.names[id(divergence)] = run.name
            self.compared.setdefault(run.arm, []).append(divergence)
            self._note(run.arm, base, other)

    def _run(self, file: str, name: str, arm: Arm, base: Recording | None = None) -> Run:
        output = self.asked.folder / f"{file}.json"
        for left in (output, output.with_suffix(".values")):
            left.unlink(missing_ok=True)
        say(f"tracer: {name}{f' ({SAID[arm]})' if arm is not Arm.UNVARIED else ''}")
        order = Order(task=self.asked.task, output=os.path.abspath(output), arm=arm, settings=self.sets)
        has_parted = self._parted_from(base, output) if self.asked.first and base is not None else None
        threads = base.environment.num_threads if base is not None and base.environment is not None else None
        changed = variables_of(arm, os.environ, threads=threads or os.cpu_count() or 1)
        variables = {**variables_among(self.sets), **changed}
        code, stopped = launching.run(order, variables, self.started, has_parted)
        self.started += 1
        if stopped:
            self.ended_by = launching.ENDING.by
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"{name} of {self.asked.task.target} could not begin", hint="the line above says why")
        run = Run(name=name, file=output.name, arm=arm, code=code, stopped=stopped)
        if code and not stopped:
            say(f"tracer: {name} ended with exit code {code}")
        self.runs.append(run)
        return run

    def _recording(self, run: Run) -> Recording | None:
        try:
            return read_recording(self.asked.folder / run.file)
        except TraceError:
            return None

    def _parted_from(self, base: Recording, output: Path) -> Callable[[], bool]:
        def has_parted() -> bool:
            try:
                return bool(compare_recordings(base, read_recording(output), may_resume=False).roots)
            except TraceError:  # nothing is written yet
                return False

        return has_parted

    def _note(self, arm: Arm, base: Recording, other: Recording) -> None:
        """What the reader must know of an arm: above all that it changed nothing."""
        note = without_effect(arm) or CANNOT.get(arm, "")
        if arm is Arm.THREADS and base.environment is not None and other.environment is not None:
            before, after = base.environment.num_threads, other.environment.num_threads
            note = f"{before} threads, then {after}"
            if before == after:
                note = f"both runs had {before} threads: the program sets their number itself"
        self.notes[arm] = note

    def result(self, settings: str, as_it_stands: Repeated | None = None) -> Repeated:
        """What all runs together showed."""
        recordings = {run.name: recording for run in self.runs if (recording := self._recording(run)) is not None}
        roots = with_arms(self.compared)
        found = outcomes(self.compared, roots, SAID, self.notes)
        every = [one for divergences in self.compared.values() for one in divergences]
        parting = [one for one in every if not one.agrees or one.ends]
        shown = parting[0] if parting else every[0]
        if parting and (unvaried := [one for one in self.compared.get(Arm.UNVARIED, ()) if not one.agrees or one.ends]):
            shown = min(unvaried, key=lambda one: one.begins)
        return Repeated(
            name=os.path.basename(os.path.normpath(self.asked.task.target)),
            runs=tuple(
                msgspec.structs.replace(run, calls=len(recordings[run.name].values)) if run.name in recordings else run
                for run in self.runs
            ),
            divergence=shown,
            second=self.names[id(shown)],
            roots=roots,
            arms=found,
            settings=settings,
            sets=self.sets,
            as_it_stands=as_it_stands,
            ended_by=self.ended_by,
            not_followed=not_followed(recordings.values()),
        )

    def _nothing_recorded(self, run: Run) -> TracerError:
        if self.ended_by:
            return EndedEarly(f"{self.ended_by} before two runs could be compared", hint="run it again")
        return TraceError(
            f"{run.name} ended with exit code {run.code} before anything was recorded", hint="its own words are above"
        )


def repeat_script(asked: Asked) -> Result:
    """Run the task as ``asked``, and compare. Raises ``UsageError`` or ``TraceError`` in one line.

    With ``settings="planned"`` the runs are made twice: as the program stands, which gives the plan, and under it.
    Within ``launching.ENDING.noted()`` a signal ends the runs, and the result is what was compared until then.
    """
    with _made(asked.folder):
        if asked.settings != PLANNED:
            series = _Series(asked, "run-", NAMED[asked.settings], 0)
            series.go()
            return Result(repeated=series.result(asked.settings), report=series.report)
        plain = _Series(msgspec.structs.replace(asked, arms=()), "run-", {}, 0)
        plain.go()
        before = plain.result(Settings.RECORDED.value)
        if plain.ended_by:
            return Result(repeated=before, report=plain.report)
        if plain.report is None:
            raise TraceError("run 1 left no trace, so there is no plan", hint="let the script end by itself")
        sets = plain.report.planned_settings
        series = _Series(asked, "planned-", sets, plain.started)
        try:
            series.go()
        except EndedEarly:
            before = msgspec.structs.replace(before, ended_by=launching.ENDING.by)
            return Result(repeated=before, report=plain.report)
        return Result(repeated=series.result(PLANNED, before), report=plain.report)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in ("repeat.json", "repeat.html"):  # would be taken for this one's, if it is killed
            (folder / earlier).unlink(missing_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot make {folder}: {problem.strerror}", hint="choose another folder with -o") from problem
    yield

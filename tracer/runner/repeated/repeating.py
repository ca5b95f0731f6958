"""``tracer repeat``: runs a script several times and compares each run with the first."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families, hang_on_workers, read_family
from tracer.divergence.lines import CLOCK, OF_ORDER, ComparedLines, LineSource
from tracer.divergence.model import Divergence, Family, Recording
from tracer.divergence.repeated import UNVARIED, Held, Repeated, Run, not_followed, outcomes, with_arms
from tracer.errors import EndedEarly, TraceError, TracerError, UsageError
from tracer.names import Settings, Training
from tracer.plain import say
from tracer.recording.options import LineOptions
from tracer.runner.ranks import Rank, current_rank, told_by_all
from tracer.runner.repeated import launching
from tracer.runner.repeated.declared import HASH_SEED, Change, Circumstance, Start, in_order, variables_among
from tracer.runner.repeated.folder import (
    Snapshot,
    clear_output,
    recordings_in,
    remove_run,
    scratch_of,
    temporary_of,
    within,
)
from tracer.runner.repeated.holding import (
    MOST_RUNS,
    Comparing,
    HeldRun,
    Holds,
    compare_runs,
    find_circumstance,
    hangs_on_settings_alone,
    suspects,
)
from tracer.runner.repeated.launching import COULD_NOT_BEGIN, Order
from tracer.runner.repeated.left_behind import Left, plain_otherwise
from tracer.runner.repeated.root_lines import MOST_RUNS as MOST_LINE_RUNS
from tracer.runner.repeated.root_lines import (
    FoundLines,
    LineRun,
    certain,
    find_lines,
    known_lines,
    lines_of_time,
    needs_lines,
    prove_timed,
    with_diverging,
    with_left,
)
from tracer.runner.script import StepRange, Task, texts_of, with_neighbours
from tracer.session import judge
from tracer.tables.settings import CUBLAS_VARIABLE, CUBLAS_WORKSPACES, MODE
from tracer.tables.sources import source_by_id
from tracer.trace.file import load_family, role_of
from tracer.trace.lines import follows_to_the_end
from tracer.trace.merging import merge_traces
from tracer.trace.records import FactValue

if TYPE_CHECKING:
    from tracer.findings import Finding
    from tracer.report import Report

PLANNED = "planned"
#: What ``--settings`` takes besides ``planned``: settings that are made in every run.
NAMED: Mapping[str, Mapping[str, FactValue]] = {
    Settings.RECORDED.value: {},
    Settings.WARN.value: {MODE: "warn", CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]},
    Settings.DETERMINISTIC.value: {MODE: "on", CUBLAS_VARIABLE: CUBLAS_WORKSPACES[0]},
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The program to run and the circumstances to vary."""

    task: Task
    folder: Path
    runs: int = 2
    arms: tuple[Circumstance, ...] = ()
    """The circumstances to vary, each in a run of its own."""
    hold: tuple[Circumstance, ...] | None = None
    """The circumstances to hold if the runs diverge; ``None``: all that can be held."""
    settings: str = Settings.RECORDED.value
    children: bool | None = None
    """Record child processes too; ``None``: if the first run started some, and trained nothing itself."""
    whole: bool = False
    """Follow lines to the end of the program, and not of the step in which runs diverge."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the runs, and the report on the first of them."""

    repeated: Repeated
    report: Callable[[], Report | None]
    """Returns ``None`` if the first run left no trace. The run is judged on the first call."""


#: Seconds that a run in which something is held may take besides three times the longest one before.
_PATIENCE = 60.0
#: Seconds of processor time for which lines are followed in the runs that are asked for: waiting costs nothing.
_LINE_SECONDS = 20.0
#: Runs that may follow those that were asked for, where these are many.
_FURTHER = 4
#: Why lines are named without proof that runs which follow them do not show.
_TIMED = "runs whose lines are followed agree: what differs hangs on the time that the program takes"
#: What is shown of a root whose calls a further run is to replay.
_NOT_REPLAYED = (Shows.NOT_REPLAYED, Shows.OPAQUE)
#: What a rank tells that needs no lines, and one that needs them to the end.
_NO_STEP, _LAST_STEP = -1, 2**31


class _Series:
    """Runs of one task under the same settings."""

    def __init__(
        self, asked: Asked, scratch: Path, prefix: str, sets: Mapping[str, FactValue], started: int = 0
    ) -> None:
        self.asked = asked
        self.scratch = scratch
        """A folder that is removed after the last run."""
        self.prefix = prefix
        self.held_prefix = "held-" if prefix == "run-" else f"{prefix}held-"
        self.sets = dict(sets)
        self.started = started
        """Runs started so far: in a distributed job each run has a number of its own."""
        self.runs: list[Run] = []
        self.compared: dict[str, list[Divergence]] = {}
        self.names: dict[int, str] = {}
        self.notes: dict[str, str] = {}
        self.found = FoundLines()
        self.timed: tuple[LineSource, ...] = ()
        """Lines that decide by the clock or take what comes first, where all runs agree."""
        self.otherwise: str | None = None
        """What a run that is not recorded leaves otherwise then, as ``Repeated`` has it."""
        self.held: tuple[Held, ...] = ()
        self.not_held = ""
        self.children = bool(asked.children)
        self.families: dict[str, Family] = {}
        self.most = started + MOST_LINE_RUNS
        """Runs that may have been started when the last one is made."""
        self.follows_lines = asked.hold is None
        """Whether the next run follows lines: in none, where those of the first were not all of it."""
        self.may_be_luck = False
        """Whether runs in which nothing is held were seen to agree."""
        self.longest = 0.0
        """Seconds that the longest run took."""
        self.ended_by = ""
        """The signal that ended the series early: ``ended by SIGTERM``."""

    def answer(self, snapshot: Snapshot | None) -> None:
        """Make the runs that are asked for, and those that find out why they diverge."""
        self.go()
        self.find_lines(snapshot)
        self.replay()
        self.hold(snapshot)

    def go(self) -> None:
        """Make every run and compare it with the first, until a signal asks this process to end.

        Raises ``UsageError`` if there is nothing to run, and ``EndedEarly`` if the signal came before any comparison.
        """
        first = self._run(f"{self.prefix}1", "run 1")
        base = self._recording(first)
        is_elsewhere = base is not None and base.trace is not None and base.trace.training is Training.ELSEWHERE
        if self.asked.children is None and is_elsewhere and not launching.ENDING.by:
            say("tracer: run 1 trained nothing itself, and started processes: once more, recording them too")
            self.children = True
            self.runs.clear()
            self.families.clear()
            first = self._run(f"{self.prefix}1", "run 1")
            base = self._recording(first)
        if base is None:
            raise self._nothing_recorded(first)
        others: list[tuple[str, str, Circumstance | None]] = [
            (f"run {number}", str(number), None) for number in range(2, self.asked.runs + 1)
        ]
        for name, suffix, varied in (*others, *((arm.value, arm.value, arm) for arm in self.asked.arms)):
            self.ended_by = self.ended_by or launching.ENDING.by
            if not self.ended_by:
                self._compare(base, self._run(f"{self.prefix}{suffix}", name, varied))
        self.most = max(self.most, self.started + _FURTHER)
        unvaried = self.compared.get(UNVARIED, ())
        if self.follows_lines and unvaried and not any(each.differs for each in unvaried):
            folder = recordings_in(self.scratch)
            traces = [folder / run.file for run in self.runs if run.arm == UNVARIED][:2]
            of_time = lines_of_time(*traces)
            self.timed = tuple(each for each in of_time if current_rank() is None or each.source == CLOCK)
            if self.timed and not self.ended_by:
                say("tracer: one further run is not recorded, which takes time: what the program does hangs on timing")
                self.otherwise = self.held_against_plain("plain", ("1", "2"))
                if self.otherwise:
                    self.found = prove_timed(_LineRuns(self, None), self.timed, _TIMED)
            if self.timed and self.otherwise is None and not self.ended_by:
                say("tracer: one further run follows no lines, which take time: what the program does hangs on timing")
                self.follows_lines, number = False, self.asked.runs + 1
                self._compare(base, self._run(f"{self.prefix}{number}", f"run {number}"))
                if self._diverging() is not None:
                    self.found, self.timed = FoundLines(self.timed, note=_TIMED), ()
        if not self.compared:
            raise EndedEarly(f"{self.ended_by} before two runs could be compared", hint="run it again")

    def held_against_plain(self, name: str, recorded: Sequence[str], lines: LineOptions | None = None) -> str | None:
        """What a run that is not recorded leaves otherwise than two that are; ``None`` where that is not known, and in
        a job of ranks."""
        if current_rank() is not None or self.asked.task.steps != StepRange():
            return None
        output = self._output(f"{self.prefix}{name}")
        code, stopped = self._further(self._order(output, is_plain=True, children=False, lines=lines))
        if stopped or self.ended_by:
            return None
        if code not in {run.code for run in self.runs}:
            return f"ends with exit code {code}"
        names = [*(f"{self.prefix}{each}" for each in recorded), output.stem]
        try:
            lefts = [msgspec.json.decode((self.scratch / f"{name}.left").read_bytes(), type=Left) for name in names]
        except FileNotFoundError:
            return None
        return plain_otherwise(lefts[:2], lefts[2])

    @property
    def left(self) -> int:
        """Runs that may still be made."""
        return 0 if self.ended_by else self.most - self.started

    def _diverging(self) -> Divergence | None:
        """The first comparison of unvaried runs that differ."""
        return next((divergence for divergence in self.compared.get(UNVARIED, ()) if divergence.differs), None)

    @cached_property
    def report(self) -> Report | None:
        """The report on the first run, judged on first use: runs that agree need none."""
        traces = [recording.trace for recording in self.families.get("run 1", {}).values() if recording.trace]
        return judge(merge_traces(traces)) if traces else None

    def _findings(self) -> Sequence[Finding] | None:
        return None if self.report is None else self.report.findings

    def _compare(self, base: Recording, run: Run) -> None:
        other = self._recording(run)
        if other is None and not self.ended_by:
            raise self._nothing_recorded(run)
        if other is not None:
            divergence = compare_runs(self.families["run 1"], self.families[run.name], self._findings)
            self.names[id(divergence)] = run.name
            self.compared.setdefault(run.arm, []).append(divergence)
            self._note(run.arm, base, other)

    def replay(self) -> None:
        """Replay, in a further run, the calls that differ although the tables call them deterministic.

        A kernel whose inputs agree is blamed only if its replays vary.
        """
        unvaried = self.compared.get(UNVARIED, [])
        every = [root for divergence in unvaried for root in divergence.roots]
        roots = [root for root in every if root.shows in _NOT_REPLAYED and not root.region]
        if not roots or not self.left or current_rank() is not None:
            return
        calls = ", ".join(dict.fromkeys(root.op for root in roots))
        say(f"tracer: one further run, in which calls are replayed on the spot ({calls})")
        output = self._output(f"{self.prefix}replayed")
        replayed_ops = tuple(dict.fromkeys(root.op for root in roots))
        self._further(self._order(output, replayed=replayed_ops), until=math.inf)
        with suppress(TraceError):
            replayed = {role_of(trace): trace for trace in load_family(output)}
            base = self.families["run 1"]
            replayed_of = {id(recording): replayed.get(role) for role, recording in base.items()}
            for place, earlier in enumerate(unvaried):
                name = self.names[id(earlier)]
                again = compare_families(
                    base,
                    self.families[name],
                    lambda ours, theirs: compare_recordings(
                        ours, theirs, may_resume=False, findings=self._findings, replayed=replayed_of[id(ours)]
                    ),
                )
                unvaried[place] = again
                self.names[id(again)] = name

    # --- runs in which lines are followed ---

    def find_lines(self, snapshot: Snapshot | None) -> None:
        """If the unvaried runs diverge, find the lines at which they begin to."""
        diverging = self._diverging()
        if self.ended_by or self.asked.hold is not None or self.found.sources:
            return
        known = None
        if diverging is not None and self.follows_lines:
            other = next(run for run in self.runs if run.name == self.names[id(diverging)])
            folder = recordings_in(self.scratch)
            known = known_lines(folder / self.runs[0].file, folder / other.file, diverging)
        if rank := current_rank():
            self._find_lines_of_ranks(rank, diverging, known)
            is_others = diverging is not None and {root.cause for root in diverging.roots} == {RootCause.OUTSIDE_CHANGE}
            if is_others and not any(source.reaches and source.source for source in self.found.sources):
                self.found = FoundLines(note="none of this rank is of a known kind: see what the other ranks say")
        elif diverging is not None:
            self.found = find_lines(_LineRuns(self, snapshot), diverging, known)
            file = self.scratch / f"{self.prefix}1.left"
            if snapshot is not None and file.exists():
                left = msgspec.json.decode(file.read_bytes(), type=Left)
                places = (at for each in self.found.sources if each.reaches for at in (each.location, *each.path))
                texts = " ".join(texts_of(places, os.getcwd()).values())
                self.found = with_left(self.found, texts, (path for path in left.files if not snapshot.had(path)))

    def _find_lines_of_ranks(self, rank: Rank, diverging: Divergence | None, known: ComparedLines | None) -> None:
        """Follow lines in two further runs of all ranks, where one rank needs them; each compares its own.

        Nothing is held: each rank diverges by lines of its own, and the others wait for it in every run.
        """
        own = _NO_STEP
        if diverging is not None and known is None and needs_lines(diverging):
            own = max(diverging.roots[0].step, 0) if diverging.roots else _LAST_STEP
        until = self.deadline()
        told = told_by_all(
            rank, f"{self.prefix}lines", own, lambda: time.monotonic() < until and not launching.ENDING.by
        )
        self.ended_by = self.ended_by or launching.ENDING.by
        alone = "nothing is held: all ranks would have to be given their values"
        if known is not None:
            self.found = FoundLines(known.sources, note="; ".join((*known.notes, alone)))
        if told is None:
            note = "the other ranks are not reached, which would have to make the same runs"
            self.found = FoundLines(note=note) if own > _NO_STEP else self.found
            return
        self.most = self.started + (2 if max(told) > _NO_STEP else 0)
        laboratory = _LineRuns(self, None, max(told))
        if own > _NO_STEP:
            assert diverging is not None
            found = find_lines(laboratory, diverging)
            self.found = found._replace(note="; ".join(filter(None, (found.note, alone))))
        else:
            for number in range(laboratory.left):
                laboratory.follow(f"lines-{number + 1}", LineOptions(), None)

    # --- runs in which something is held ---

    def hold(self, snapshot: Snapshot | None) -> None:
        """If the unvaried runs diverge, search in further runs for the circumstances that explain it."""
        diverging = self._diverging()
        if diverging is None or self.ended_by or self.asked.hold == ():
            return
        is_proven = any(held.agrees for held in self.found.held)
        if self.asked.hold is None and (is_proven or certain(diverging.roots)):
            return
        if current_rank() is not None:
            self.not_held = "several ranks would have to make the same further runs"
            return
        if self.asked.hold is None and hang_on_workers(diverging.roots):
            self.not_held = "which worker of a pool runs which task decides, and no circumstance holds that"
            return
        candidates = self._candidates(snapshot)
        # No circumstance but its own explains a line of a known kind.
        left = [each for each in self.found.sources if each.reaches and each.location not in self.found.refuted]
        rows = (source_by_id(source.source) for source in left)
        if self.asked.hold is None and (row := next(rows, None)) is not None:
            candidates = [candidate for candidate in candidates if candidate.value in row.circumstances]
        if self.asked.hold is None and hangs_on_settings_alone(diverging.roots, self._findings() or ()):
            candidates = [candidate for candidate in candidates if candidate is Circumstance.SETTINGS]
        if not candidates:
            self.not_held = "nothing that could be held here can explain it"
            return
        if self.left < 2:
            self.not_held = "the runs of this answer were used up by lines"
            return
        other = self.names[id(diverging)]
        suspected = suspects(diverging.roots, candidates) or ([*candidates] if len(candidates) == 1 else [])
        comparing = Comparing([self.families["run 1"], self.families[other]], self._findings)
        most = min(MOST_RUNS, self.left)
        say(
            f"tracer: {other} diverges from run 1; in at most {most} further runs circumstances are held, to find"
            f" the one that explains it: {', '.join(candidates)}"
        )
        laboratory = _HeldRuns(self, comparing, snapshot)
        are_named = self.asked.hold is not None
        self.held = find_circumstance(laboratory, candidates, suspected, are_named=are_named)
        self.found = self.found._replace(sources=with_diverging(self.found.sources, self.held))
        if not diverging.roots and not_followed(comparing.unheld)[1]:
            self.held = tuple(map(without_luck, self.held))
        if self.may_be_luck:
            chance = "runs in which nothing is held agree at times too"
            self.held = tuple(replace(held, is_cause=False, no_proof=chance) for held in self.held)
        if any(held.is_cause for held in self.held):  # which a line that was held in vain is not
            left = [each for each in self.found.sources if each.location not in self.found.refuted]
            self.found = self.found._replace(sources=tuple(left))

    def _candidates(self, snapshot: Snapshot | None) -> list[Circumstance]:
        """Return the circumstances that can be held here and may explain why two runs diverge."""
        named = self.asked.hold
        candidates = []
        for circumstance in Circumstance if named is None else named:
            why = self._why_not_held(circumstance, snapshot)
            if circumstance.held is not None and not why:
                candidates.append(circumstance)
            elif why and named is not None:
                say(f"tracer: {circumstance} is not held: {why}")
        return candidates

    def _why_not_held(self, circumstance: Circumstance, snapshot: Snapshot | None) -> str:
        """Return why holding ``circumstance`` would change nothing; empty if it would change something."""
        if circumstance.held is not None and (why := circumstance.held.why_not()):
            return why
        if circumstance is Circumstance.HASH_SEED and os.environ.get(HASH_SEED, "random") != "random":
            return f"{HASH_SEED} is set already"
        if circumstance is Circumstance.SETTINGS and not self._planned():
            return "the plan makes no setting"
        if circumstance is Circumstance.THREADS and self._threads() == 1:
            return "one thread computes already"
        if circumstance is Circumstance.FOLDER:
            return "nothing is held in a job of several ranks" if snapshot is None else snapshot.why_not_copied()
        return ""

    def _planned(self) -> dict[str, FactValue]:
        planned = self.report.planned_settings if self.report is not None else {}
        return {name: value for name, value in planned.items() if self.sets.get(name) != value}

    def _threads(self) -> int:
        base = self.families.get("run 1", {}).get("")
        threads = base.environment.num_threads if base is not None and base.environment is not None else None
        return threads or os.cpu_count() or 1

    def deadline(self) -> float:
        """When a further run that begins now is given up, by the monotonic clock."""
        return time.monotonic() + 4 * self.longest + _PATIENCE

    def has_failed(self, code: int) -> bool:
        """Return whether a further run ended with a code that none of the plain runs had."""
        return bool(code) and code not in {run.code for run in self.runs if not run.held and run.arm == UNVARIED}

    def _run(self, file: str, name: str, varied: Circumstance | None = None) -> Run:
        change = varied.varied if varied is not None else None
        output = self._output(file)
        temporary = self.scratch / "temporary"
        temporary.mkdir(exist_ok=True)
        order = self._order(
            output,
            varied=varied,
            number=len(self.runs),
            temporary=str(temporary) if varied is Circumstance.ENVIRONMENT else "",
            lines=LineOptions(seconds=_LINE_SECONDS) if self.follows_lines and varied is None else None,
        )
        say(f"tracer: {name}{f' ({change.words})' if change is not None else ''}")
        code, stopped = self._launch(order, [change] if change is not None else [])
        if stopped:
            self.ended_by = launching.ENDING.by
        self.follows_lines = self.follows_lines and (varied is not None or follows_to_the_end(output))
        if code == COULD_NOT_BEGIN:
            raise UsageError(f"{name} of {self.asked.task.target} could not begin", hint="the line above says why")
        arm = varied.value if varied is not None else UNVARIED
        return self._add_run(Run(name=name, file=output.name, arm=arm, code=code, stopped=stopped))

    def _output(self, file: str) -> Path:
        """The path of a run's trace; files of a run of that name there are removed."""
        output = recordings_in(self.scratch) / f"{file}.json"
        remove_run(output)
        return Path(os.path.abspath(output))

    def _add_run(self, run: Run) -> Run:
        if run.code and not run.stopped:
            say(f"tracer: {run.name} ended with exit code {run.code}")
        self.runs.append(run)
        return run

    def _order(self, output: Path, folder: Path | None = None, **fields: Any) -> Order:
        """The order of a run of this series, which works in ``folder`` if one is given."""
        every = {"task": self.asked.task, "children": self.children, "settings": self.sets}
        if folder is not None:
            every |= {"task": within(self.asked.task, folder), "temporary": str(temporary_of(folder))}
        return Order(**{**every, "output": str(output), "scratch": str(self.scratch), **fields})

    def _further(
        self, order: Order, changes: Sequence[Change] = (), folder: Path | None = None, until: float | None = None
    ) -> tuple[int, bool]:
        """Make a run beyond those that were asked for, whose output is no news; by default until the deadline."""
        until = self.deadline() if until is None else until
        ended = self._launch(order, changes, folder, until, prints=Path(os.devnull))
        self.ended_by = launching.ENDING.by
        return ended

    def _launch(
        self,
        order: Order,
        changes: Sequence[Change],
        folder: Path | None = None,
        until: float = math.inf,
        prints: Path | None = None,
    ) -> tuple[int, bool]:
        """Start a run under ``changes`` and wait for it: its exit code, and whether it was ended early."""
        start = Start(os.environ, self._threads(), order.planned)
        variables = dict(variables_among(self.sets))
        for change in changes:
            variables |= change.variables(start)
        before_exec = next((change.before_exec for change in changes if change.before_exec is not None), None)
        began = time.monotonic()
        try:
            return launching.run(
                order, variables, self.started, until, folder=folder, before_exec=before_exec, prints=prints
            )
        finally:
            self.started += 1
            self.longest = max(self.longest, time.monotonic() - began)

    def _recording(self, run: Run) -> Recording | None:
        """The recording of ``run``, read once; ``None`` if there is none."""
        with suppress(TraceError):
            if run.name not in self.families:
                self.families[run.name] = read_family(recordings_in(self.scratch) / run.file)
            return self.families[run.name][""]
        return None

    def _note(self, arm: str, base: Recording, other: Recording) -> None:
        """Note what the reader must know about an arm, above all that it changed nothing."""
        varied = next((circumstance.varied for circumstance in Circumstance if circumstance.value == arm), None)
        note = "" if varied is None else varied.why_not() or varied.cannot
        if arm == Circumstance.THREADS.value and base.environment is not None and other.environment is not None:
            before, after = base.environment.num_threads, other.environment.num_threads
            note = f"{before} threads, then {after}"
            if before == after:
                note = f"both runs had {before} threads: the program sets their number itself"
        self.notes[arm] = note

    def result(self, settings: str, as_it_stands: Repeated | None = None) -> Repeated:
        """Return the outcome of all runs together."""
        recordings = ((run, self._recording(run)) for run in self.runs)
        calls = {run.name: len(recording.values) for run, recording in recordings if recording is not None}
        plain = (run.name for run in self.runs if run.name in calls and not run.held)
        roots = with_arms(self.compared)
        changed = {arm.value: arm.varied.words for arm in Circumstance if arm.varied is not None}
        every = [divergence for divergences in self.compared.values() for divergence in divergences]
        shown = next((divergence for divergence in every if divergence.differs), every[0])
        unvaried = self.compared.get(UNVARIED, [])
        if diverging := [divergence for divergence in unvaried if divergence.differs]:
            shown = min(diverging, key=lambda divergence: divergence.begins)
        return Repeated(
            name=os.path.basename(os.path.normpath(self.asked.task.target)),
            runs=tuple(replace(run, calls=calls.get(run.name, run.calls)) for run in self.runs),
            divergence=shown,
            second=self.names[id(shown)],
            roots=roots,
            arms=outcomes(self.compared, roots, {UNVARIED: "nothing", **changed}, self.notes),
            settings=settings,
            sets=self.sets,
            as_it_stands=as_it_stands,
            held=self.held,
            not_held=self.not_held,
            sources=self.found.sources,
            held_lines=self.found.held,
            lines_note=self.found.note,
            timed=tuple(source.location for source in self.timed if source.source not in OF_ORDER),
            orders=tuple(source.location for source in self.timed if source.source in OF_ORDER),
            otherwise=self.otherwise,
            texts=texts_of((source.called_from or source.location for source in self.found.sources), os.getcwd()),
            source=with_neighbours((root.called_from or root.location for root in roots), os.getcwd()),
            ended_by=self.ended_by,
            unrecorded=not_followed(map(self.families.__getitem__, plain)),
        )

    def _nothing_recorded(self, run: Run) -> TracerError:
        if self.ended_by:
            return EndedEarly(f"{self.ended_by} before two runs could be compared", hint="run it again")
        words = f"{run.name} ended with exit code {run.code} before anything was recorded"
        return TraceError(words, hint="its own words are above")


class _Copies:
    """Further runs of a series, which work in copies of the folder as run 1 found it, if runs change that."""

    def __init__(self, series: _Series, snapshot: Snapshot | None) -> None:
        self._series = series
        self._snapshot = None if snapshot is None or snapshot.why_not_copied() else snapshot
        self._folder: Path | None = None

    @property
    def left(self) -> int:
        """Runs that may still be made."""
        return self._series.left

    def _folder_of(self, *, anew: bool) -> Path | None:
        """A fresh copy, or the one that the last run has left, as run 2 found it."""
        if self._snapshot is not None and (anew or self._folder is None):
            self._folder = self._snapshot.copy()
        return self._folder


class _LineRuns(_Copies):
    """Runs in which lines are followed."""

    def __init__(self, series: _Series, snapshot: Snapshot | None, last_step: int | None = None) -> None:
        super().__init__(series, snapshot)
        self._last_step = last_step
        """The step that ends every run, where ranks have agreed on one."""

    def values_folder(self) -> Path:
        """A folder of the job's own for the values of lines."""
        folder = self._series.scratch / "values"
        folder.mkdir(exist_ok=True)
        return folder

    def follow(self, name: str, lines: LineOptions, last_step: int | None, *, anew: bool = False) -> LineRun | None:
        """Make a run whose lines are followed, up to the end of ``last_step``."""
        series, folder = self._series, self._folder_of(anew=anew)
        if folder is not None and anew and lines.held:  # those that are given its values find what it leaves
            last_step = None
        last_step = last_step if self._last_step is None else self._last_step
        output = series._output(f"{series.prefix}{name}")
        order = series._order(output, folder, number=series.started, lines=lines)
        if last_step is not None and not series.asked.whole:
            steps = order.task.steps
            stop = last_step + 1 if steps.stop is None else min(steps.stop, last_step + 1)
            task = replace(order.task, steps=StepRange(steps.start, stop), exit_after_steps=True)
            order = replace(order, task=task)
        say(f"tracer: {name}")
        code, stopped = series._further(order, folder=folder)
        if lines.gives and series.has_failed(code):
            say(f"tracer: {name} failed: what the other run had there does not fit here, so it proves nothing")
        if stopped or series.ended_by or series.has_failed(code):
            return None  # a run that fails before the calls differ would agree with any other
        try:
            return LineRun(output, read_family(output))
        except TraceError:
            return None

    def otherwise(self, name: str, lines: LineOptions, recorded: Sequence[str]) -> str | None:
        """What a run that is not recorded leaves otherwise, with ``lines`` held; ``None`` if nothing tells."""
        say(f"tracer: {name}, which is not recorded")
        return self._series.held_against_plain(name, recorded, lines)

    def compare(self, first: Family, second: Family) -> Divergence:
        """Hold two runs against each other."""
        return compare_runs(first, second, self._series._findings)

    def meets(self, family: Family, last_step: int | None) -> bool:
        """Return whether a run agrees, up to the end of a step, with one of those that were asked for."""
        series = self._series
        others = [run.name for run in series.runs if run.arm == UNVARIED and not run.held]
        others = others[1:] if self._snapshot is not None else others  # the first one found the same folder
        unvaried = (series.families.get(name) for name in others)
        until = math.inf if last_step is None else last_step
        compared = (self.compare(other, family) for other in unvaried if other is not None)
        may = any(all(root.step > until for root in divergence.roots) for divergence in compared)
        series.may_be_luck = may
        return may


class _HeldRuns(_Copies):
    """Runs in which circumstances are held: with the folder held, each gets a fresh copy."""

    def __init__(self, series: _Series, comparing: Comparing, snapshot: Snapshot | None) -> None:
        super().__init__(series, snapshot)
        self._comparing, self.compare = comparing, comparing.compare
        self._count = 0
        self._limit = 3 * series.longest + _PATIENCE

    def run(self, held: Holds) -> HeldRun | None:
        """Make a run with ``held`` held; ``None`` if a signal asked this process to end."""
        series = self._series
        if launching.ENDING.by:
            series.ended_by = launching.ENDING.by
        if not series.left:
            return None
        self._count += 1
        circumstances = in_order(held)
        output = series._output(f"{series.held_prefix}{self._count}")
        folder = self._folder_of(anew=Circumstance.FOLDER in held)
        say(f"tracer: held {self._count} ({', '.join(circumstances) or 'nothing'})")
        planned = series._planned() if Circumstance.SETTINGS in held else {}
        order = series._order(output, folder, held=circumstances, planned=planned, number=len(series.runs))
        changes = [circumstance.held for circumstance in circumstances if circumstance.held is not None]
        code, stopped = series._further(order, changes, folder, time.monotonic() + self._limit)
        if series.ended_by:
            return None
        run = Run(name=f"held {self._count}", file=output.name, held=circumstances, code=code, stopped=stopped)
        series._add_run(run)
        family = None if series._recording(run) is None else series.families[run.name]
        return HeldRun(held, family, self._problem(run, family))

    def _problem(self, run: Run, family: Family | None) -> str:
        """Return the reason why the run proves nothing; empty if it does."""
        if run.stopped:
            return f"a run was ended that took more than {self._limit:.0f} seconds"
        if self._series.has_failed(run.code):
            return f"the script ends with exit code {run.code} then"
        return "nothing was recorded" if family is None else self._comparing.other_calls(family)


def without_luck(held: Held) -> Held:
    """``held`` without a cause that cannot reach threads, where only what threads train differs."""
    if not held.is_cause or Circumstance.THREADS.value in held.circumstances:
        return held
    chance = "threads that are not followed train what differs, and may have agreed by chance"
    return replace(held, is_cause=False, no_proof=chance)


def repeat_script(asked: Asked) -> Result:
    """Run the task as ``asked``, and compare. Raises ``UsageError`` or ``TraceError`` with a one-line message.

    With ``settings="planned"`` there are two series of runs: the program as it stands, whose first run gives the plan,
    then the program under the plan's settings. Within ``launching.ENDING.handling_signals()`` a signal ends the runs,
    and the result holds the comparisons made until then.
    """
    clear_output(asked.folder, "repeat", "run-*", "held-*", "planned-*")
    with scratch_of(asked.folder) as scratch:
        can_hold = asked.hold != () and current_rank() is None
        snapshot = Snapshot(Path.cwd(), asked.folder, scratch) if can_hold else None
        if asked.settings != PLANNED:
            series = _Series(asked, scratch, "run-", NAMED[asked.settings])
            series.answer(snapshot)
            return Result(repeated=series.result(asked.settings), report=lambda: series.report)
        plain = _Series(replace(asked, arms=()), scratch, "run-", {})
        plain.go()
        before = plain.result(Settings.RECORDED.value)
        if plain.ended_by:
            return Result(repeated=before, report=lambda: plain.report)
        if plain.report is None:
            raise TraceError("run 1 left no trace, so there is no plan", hint="let the script end by itself")
        sets = plain.report.planned_settings
        series = _Series(asked, scratch, "planned-", sets, plain.started)
        try:
            series.answer(snapshot)
        except EndedEarly:
            before = replace(before, ended_by=launching.ENDING.by)
            return Result(repeated=before, report=lambda: plain.report)
        return Result(repeated=series.result(PLANNED, before), report=lambda: plain.report)

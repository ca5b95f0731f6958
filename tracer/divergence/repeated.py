"""Several runs of one program, each compared with the first: as it stands, and under varied circumstances."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import OF_TRAINING
from tracer.divergence.lines import CLOCK, FOLLOWS, LineKind, LineSource
from tracer.divergence.model import Divergence, EndState, Family, Root
from tracer.findings import Finding, PlannedChange
from tracer.names import About, ChildState, StartedBy
from tracer.tables.sources import Source, source_by_id, source_of
from tracer.trace.records import FactValue
from tracer.trace.values import ValueKind

#: The arm in which nothing is varied: a difference here is the program's own. Other arms are named after the
#: circumstance that they vary.
UNVARIED = "unvaried"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    name: str
    """``run 1``, ``run 2``, or the arm's: ``memory``."""
    file: str
    """Its recording, relative to the output folder; empty if it is not saved."""
    arm: str = UNVARIED
    held: tuple[str, ...] = ()
    """The circumstances that it held, to find the cause."""
    code: int = 0
    """Its exit code; -15 and the like for a signal."""
    calls: int = 0
    stopped: bool = False
    """Whether it was ended early, by a signal."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an arm's runs."""

    agrees: bool
    changed: str
    """The change, in a few words."""
    calls_compared: int
    runs: int
    """Runs that were compared with the first."""
    first: Root | None = None
    alone: int = 0
    """Roots that only this arm showed."""
    note: str = ""
    """A note for the reader: that the change had no effect here, or what it does not cover."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Circumstances that were held in further runs, and whether runs agree then."""

    circumstances: tuple[str, ...]
    """Their names."""
    is_all: bool = False
    """Whether these are all circumstances that were to be held."""
    agrees: bool
    """Whether runs agree with them held."""
    runs: int
    """Compared runs that held them."""
    is_cause: bool = False
    """Whether runs agree with them held, and no longer with them free."""
    is_certain: bool = True
    """Whether it was confirmed that it is the cause. If no run was left for that, it may be."""
    clause: str = ""
    """``the hash seed is held``."""
    shows: str = ""
    """The meaning of agreement: ``the order of a set or a hash reaches the step``."""
    remedy: str = ""
    cannot: str = ""
    """The limits of holding them."""
    no_proof: str = ""
    """The reason why the result proves nothing, such as a run that failed; empty if it does prove something."""
    first: Root | None = None
    """The first root of runs that hold them, if any."""


class HeldLine(msgspec.Struct, frozen=True, kw_only=True):
    """Lines whose values of one run were given to another."""

    lines: tuple[str, ...]
    agrees: bool
    """Whether the two runs agree then."""
    runs: int = 0
    """Runs that were given them."""
    problem: str = ""
    """The reason why it proves nothing; empty if it does prove something."""
    at: str = ""
    """The line on their way at which they were held, where a run could not go on with what they give themselves."""

    @property
    def is_in_vain(self) -> bool:
        """Whether the runs differ although all that the lines give is the same."""
        return self.runs > 0 and not (self.agrees or self.problem)


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of running a program several times."""

    name: str
    """The script, the module or the function that was run."""
    runs: tuple[Run, ...]
    divergence: Divergence
    """The comparison that diverges first, or any one if all agree."""
    second: str = "run 2"
    """The run that it compares with run 1."""
    roots: tuple[Root, ...] = ()
    """Of all runs, in order of execution, each with the arms that show it."""
    arms: dict[str, Outcome] = {}
    held: tuple[Held, ...] = ()
    """The circumstances held after the runs had diverged, in the order in which they were tried."""
    not_held: str = ""
    """The reason why nothing was held although the runs diverge; empty if something was, or nothing had to be."""
    sources: tuple[LineSource, ...] = ()
    """The lines at which the runs begin to differ, those that reach a call that differs first."""
    held_lines: tuple[HeldLine, ...] = ()
    """The lines that were held, in the order in which they were tried."""
    timed: tuple[str, ...] = ()
    """Where runs agree: lines that decide by the clock, so that a faster or slower run may differ."""
    orders: tuple[str, ...] = ()
    """Where runs agree: lines that take what others give as it comes, in an order that may be another in the next."""
    otherwise: str | None = None
    """What a run that was not recorded prints or writes otherwise then; empty if nothing, ``None`` if nothing tells."""
    lines_note: str = ""
    """Why no line is named, or what is missing of the lines."""
    texts: dict[str, str] = {}
    """By location: the text of a line that is named; not in the JSON."""
    settings: str = "recorded"
    """The runs' settings: the program's own, the plan's, or another name of a target's."""
    sets: dict[str, FactValue] = {}
    """The settings applied before the program's first line."""
    as_it_stands: Repeated | None = None
    """The same without those settings, if both were asked for."""
    not_restored: tuple[str, ...] = ()
    """State that a function's calls may have passed on to each other."""
    source: dict[str, str] = {}
    """By place: the user's source lines around a root; not in the JSON."""
    ended_by: str = ""
    """The signal that ended the series early (``ended by SIGTERM``); empty if none did."""
    unrecorded: tuple[int, int] = (0, 0)
    """Processes that a run started, and threads that computed in it (modules ran there, or autograd recorded a graph):
    neither is recorded. A loader's workers do not count, since their batches are compared as inputs of the calls that
    read them."""

    @property
    def not_followed(self) -> int:
        """Processes that were started and threads that computed: nothing that they compute is compared call by call."""
        return sum(self.unrecorded)

    @property
    def agrees(self) -> bool:
        """Whether all runs agree in every compared call and in how they end, and one that was not recorded in what it
        leaves. That proves nothing."""
        alike = not self.otherwise and not self.ended_apart
        return alike and all(outcome.agrees for outcome in self.arms.values())

    @property
    def trains_alike(self) -> bool:
        """Whether two runs differ in what they print alone, by something that reaches nothing that trains: all states
        of training were compared and agree, and so do files."""
        shown, is_one = self.divergence, sum(outcome.runs for outcome in self.arms.values()) == 1
        is_printed = bool(shown.notes) and all(note.kind is ValueKind.OUTPUT for note in shown.notes)
        is_whole = not (shown.ends or self.otherwise or self.ended_apart)
        return is_one and bool(shown.roots) and shown.spares_training and is_printed and is_whole

    @property
    def ends(self) -> tuple[EndState, ...]:
        """The results that the runs left with different bytes although all calls agree, so that no root explains it."""
        return () if self.first is not None else self.divergence.ends

    @property
    def possible(self) -> tuple[LineSource, ...]:
        """Lines that differ and may be why the runs end differently, without proof, as no call is known to: those of a
        known kind first."""
        is_known = self.cause is not None or self.reaching
        return tuple(sorted(self.sources, key=lambda source: not source.source)) if self.ends and not is_known else ()

    @property
    def first(self) -> Root | None:
        """The first root: unvaried, or, if runs agree there, in the first arm that diverges."""
        return next((outcome.first for outcome in self.arms.values() if outcome.first is not None), None)

    @property
    def without_effect(self) -> tuple[Root, ...]:
        """Differences that reach nothing: the runs agree."""
        return self.divergence.without_effect

    @property
    def numbered(self) -> tuple[Root, ...]:
        """All roots as a report numbers them: those of the displayed comparison, then those of the others."""
        left = {_place(root): root for root in self.roots}
        met: dict[tuple[str, ...], Root] = {}
        drawn = []
        for root in self.divergence.roots:
            first = met.get(_place(root))
            drawn.append(replace(root, arms=first.arms) if first is not None else left.pop(_place(root), root))
            met.setdefault(_place(root), drawn[-1])
        return (*drawn, *left.values())

    @property
    def calls_compared(self) -> int:
        """Calls in which every unvaried run was compared with the first."""
        outcome = self.arms.get(UNVARIED)
        return outcome.calls_compared if outcome is not None else self.divergence.calls_compared

    @property
    def cause(self) -> Held | None:
        """The circumstances that explain why the runs diverge, if holding them has shown it."""
        return next((held for held in self.held if held.is_cause), None)

    @property
    def reaching(self) -> tuple[LineSource, ...]:
        """The lines that reach a call that differs; the first one is named before all others."""
        return tuple(source for source in self.sources if source.reaches)

    @property
    def diverging_held(self) -> Held | None:
        """The circumstances with which runs begin to differ at the line that is named first, and not before."""
        named = next((source.location for source in self.reaching), None)
        kept = (held for held in self.held if not (held.agrees or held.no_proof))
        return next((held for held in kept if held.first is not None and _line(held.first) == named), None)

    @property
    def proven_lines(self) -> tuple[str, ...]:
        """The lines that explain why the runs diverge, as given one run's values there another agrees with it."""
        return next((held.lines for held in self.held_lines if held.agrees), ())

    @property
    def partial(self) -> str:
        """The reason why a recording is incomplete or a run missing; empty if all are whole, or stopped on purpose."""
        if self.ended_by:
            return self.ended_by
        stopped = any(run.stopped for run in self.runs)
        return "" if stopped else next((reason for reason in self.divergence.partial if reason), "")

    @property
    def not_followed_clause(self) -> str:
        """``2 processes were started and not followed``, or what is said of threads; empty if all was followed."""
        one = "process was started and", "thread computed and was"
        several = "processes were started and", "threads computed and were"
        counted = zip(self.unrecorded, one, several, strict=True)
        return "; ".join(f"{n:,} {words if n == 1 else many} not followed" for n, words, many in counted if n)

    @property
    def ended_apart(self) -> str:
        """``run 2 was killed by SIGSEGV, run 1 ended with exit code 0``; empty where all ended with one exit code."""
        runs = sorted((run for run in self.runs if not run.held and not run.stopped), key=lambda run: run.code)
        ended = [(code, [run.name for run in alike]) for code, alike in groupby(runs, lambda run: run.code)]
        if len(ended) < 2 and all(code >= 0 for code, _ in ended):
            return ""
        words = []
        for code, names in ended:
            name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
            killed = f"{'was' if len(names) == 1 else 'were'} killed by {name}"
            words.append(f"{' and '.join(names)} {killed if code < 0 else f'ended with exit code {code}'}")
        return ", ".join(words)

    @property
    def failed(self) -> tuple[Run, ...]:
        """Runs that failed."""
        return tuple(run for run in self.runs if run.code and not run.stopped)


def not_followed(runs: Iterable[Family]) -> tuple[int, int]:
    """The largest numbers of processes that one of ``runs`` started, and of threads that computed in one, of which
    nothing is compared."""
    processes = threads = 0
    for run in runs:
        traces = [recording.trace for recording in run.values() if recording.trace is not None]
        # A child that did not train has no trace, and is a blind spot of its parent's; but its calls are compared. So
        # is what comes of one that made no call: calls of its parent's take it in.
        compared = sum(
            child.count
            for trace in traces
            for child in trace.children
            if child.started_by not in (StartedBy.LOADER, StartedBy.UNSEEN) and not child.is_followed
            if child.made_no_op
            or (child.role in run and (child.state is ChildState.UNTRAINED or child.started_by is StartedBy.POOL))
        )
        processes = max(processes, sum(trace.not_followed for trace in traces) - compared)
        threads = max(threads, sum(trace.threads_not_followed for trace in traces))
    return processes, threads


def _place(root: Root) -> tuple[str, ...]:
    """Identifies a root across pairs of runs, whatever its cause."""
    return root.key[1:]


def with_arms(compared: Mapping[str, Sequence[Divergence]]) -> tuple[Root, ...]:
    """All roots of all comparisons, each once and with the arms that show it, in order of execution. A root that the
    unvaried runs show keeps their reason: what an arm varied is not its cause."""
    arms: dict[tuple[str, ...], dict[str, None]] = {}
    first_shown: dict[tuple[str, ...], Root] = {}
    for arm, divergences in compared.items():
        for divergence in divergences:
            for root in divergence.roots:
                first_shown.setdefault(_place(root), root)
                arms.setdefault(_place(root), {})[arm] = None
    roots = (replace(root, arms=tuple(arms[place])) for place, root in first_shown.items())
    return tuple(sorted(roots, key=lambda root: (UNVARIED not in root.arms, root.step, root.call)))


def outcomes(
    compared: Mapping[str, Sequence[Divergence]],
    roots: Iterable[Root],
    changed: Mapping[str, str],
    notes: Mapping[str, str],
) -> dict[str, Outcome]:
    """Return the outcome of each arm; ``changed`` and ``notes`` describe the arms."""
    by_place = {_place(root): root for root in roots}
    found = {}
    for arm, divergences in compared.items():
        in_order = sorted(divergences, key=lambda divergence: divergence.begins)
        found[arm] = Outcome(
            agrees=all(divergence.agrees and not (divergence.ends and arm == UNVARIED) for divergence in divergences),
            changed=changed[arm],
            calls_compared=min((divergence.calls_compared for divergence in divergences), default=0),
            runs=len(divergences),
            first=next((by_place[_place(each.roots[0])] for each in in_order if each.roots), None),
            alone=sum(root.arms == (arm,) for root in by_place.values()),
            note=notes.get(arm, ""),
        )
    return found


# --- what to change next: for each root, each hold that explains, each input that differs ---


#: Causes that the tables speak of, so that the remedy of a finding at a root is the root's.
_OF_TABLES = (
    RootCause.KERNEL,
    RootCause.SETTING,
    RootCause.DRAW,
    RootCause.UNWRITTEN_MEMORY,
    RootCause.COLLECTIVE,
)
#: Lines that may be why runs end differently which the plan names, each of another kind.
_MOST_POSSIBLE = 3
_ORDER = (
    "Give it a seeded generator, `generator=torch.Generator().manual_seed(0)`, seed what its sampler draws from, and"
    " sort what it indexes."
)
_SAMPLES = (
    "The samples themselves differ: draw in its data set for each sample by its index, from a seed in the code; give"
    " the loader `generator=torch.Generator().manual_seed(0)`, from which its workers' seeds are drawn; and read no"
    " clock, entropy or changing file there."
)


def next_steps(
    repeated: Repeated, plan: Sequence[PlannedChange] = (), findings: Sequence[Finding] = ()
) -> tuple[PlannedChange, ...]:
    """Return the changes that diverged runs ask for, then ``plan``, a judgement's; ``plan`` alone if they agree."""
    if repeated.agrees:
        return tuple(plan)
    spoken: dict[int, list[int]] = {}
    steps: dict[tuple[str, str, str], list[int]] = {}
    # A change whose settings were made did not help.
    unmade = [change for change in plan if not (change.sets and change.sets.items() <= repeated.sets.items())]
    named = next(iter(repeated.reaching), None)
    row, cause = source_by_id(named.source) if named is not None else None, repeated.cause
    is_held = row is not None and cause is not None and not {*cause.circumstances}.isdisjoint(row.circumstances)
    in_vain = any(held.runs and not held.agrees and not held.problem for held in repeated.held_lines)
    is_draw = named is not None and named.kind is LineKind.DRAW and not in_vain  # which is what feeds the step
    for number, root in enumerate(repeated.numbered, 1):
        closing = (change for change in unmade if any(_speaks_of(findings[at], root) for at in change.findings))
        if (repeated.proven_lines or is_held or repeated.diverging_held) and root.cause.is_from_lines:
            continue  # it follows from the line
        if (change := next(closing, None)) is not None:
            spoken.setdefault(change.number, []).append(number)
        elif not (is_draw and root.cause.is_from_lines):
            steps.setdefault(_step(root), []).append(number)
    told = [replace(change, roots=tuple(spoken.get(change.number, ()))) for change in plan]
    # What hangs on another change keeps its place behind it.
    leading = [change for change in told if change.roots and not change.needs]
    is_told = cause is not None and cause.circumstances == ("settings",) and any(change.sets for change in leading)
    ordered = [*_lines(repeated, is_spoken=any(1 in change.roots for change in leading))]
    if cause is not None and cause.remedy and not (is_told or is_held):
        ordered.append(  # what makes permanent what made the runs agree
            PlannedChange(
                number=0,
                title=f"Remove what differs: runs agree when {cause.clause}",
                remedy=f"{cause.remedy[:1].upper()}{cause.remedy[1:]}.",
                where=_line(repeated.first) if repeated.first is not None else "the whole process",
                roots=tuple(range(1, len(repeated.numbered) + 1)),
            )
        )
    ordered += leading
    for (title, remedy, where), numbers in steps.items():
        ordered.append(PlannedChange(number=0, title=title, remedy=remedy, where=where, roots=tuple(numbers)))
    ordered += [*_left(repeated), *(change for change in told if change not in leading)]
    moved = {change.number: number for number, change in enumerate(ordered, 1)}
    shown = repeated.divergence
    differs = any(root.reaches_training for root in repeated.numbered)
    trains_alike = shown.spares_training and not differs and not any(end.kind in OF_TRAINING for end in shown.ends)
    numbered = []
    for number, change in enumerate(ordered, 1):
        needs = (replace(need, changes=tuple(sorted(moved[other] for other in need.changes))) for need in change.needs)
        optional = "It is optional: what differs reaches nothing that trains." if trains_alike and change.roots else ""
        remedy = f"{change.remedy} {optional}".strip()
        numbered.append(replace(change, number=number, needs=tuple(needs), remedy=remedy))
    return tuple(numbered)


def _speaks_of(finding: Finding, root: Root) -> bool:
    """Return whether the finding is about the call, or about what the root was seen to come from."""
    if finding.about is not About.CALL:
        is_its_seed = root.seed is not None and finding.location == root.seed.location != ""
        if is_its_seed or (root.cause is RootCause.DRAW and finding.name == f"generator {root.name}"):
            return True
    at = (finding.op, finding.phase, finding.location)
    return root.cause in _OF_TABLES and at == (root.op, root.phase, root.location)


def _lines(repeated: Repeated, *, is_spoken: bool) -> Iterator[PlannedChange]:
    """Yield the change of the first line at which the runs begin to differ, and of those that were proven with it.

    ``is_spoken``: a change of the plan is for the first root, and seeds the generator that such a line draws from.
    """
    told: list[str] = []
    beside = repeated.diverging_held
    reaching, proven = repeated.reaching, repeated.proven_lines
    behind = {at for source in reaching if source.location in proven for at in source.comes_of}
    has_kind = any(source.location in behind and source_by_id(source.source) for source in reaching)
    for source in (source for source in reaching if not (source.comes_of and has_kind)):
        row = source_by_id(source.source)
        is_shown = beside is not None or source.location in proven or source.location in behind
        if told and (row is None or row.id in told or not is_shown):
            continue
        told.append("" if row is None else row.id)
        if is_spoken and source.kind is LineKind.DRAW:
            continue
        does = " and ".join(each.name for each in rows_of(source))
        what = f"that {does}" if does else "at which the runs begin to differ"
        yield PlannedChange(
            number=0,
            title=f"Change the line {what}",
            remedy=remedy_of(source),
            where=f"{source.location} (called from {source.called_from})" if source.called_from else source.location,
            roots=tuple(range(1, len(repeated.numbered) + 1)),
        )


def rows_of(source: LineSource) -> tuple[Source, ...]:
    """The rows of a line: its own, and where that differs by itself those of its other calls that do."""
    row = source_by_id(source.source)
    calls = source.may_call if row is not None and row.varies else ()
    others = (source_of((call,)) for call in calls if " " not in call)
    varying = (other for other in others if other is not None and other.varies)
    rows = () if row is None else (row, *varying)
    limit = source_by_id("time-limit") if source.is_time_limit else None
    return tuple({each.id: limit if limit and each.id == CLOCK else each for each in rows}.values())


def remedy_of(source: LineSource) -> str:
    """What to change at a line, as a sentence: that of its kind, or what can be said of any."""
    named = (call for call in source.may_call if "." in call and " " not in call and call[:1] != "?")
    calls = [f"`{call}`" for call in named if not FOLLOWS.match(call)][:2]
    gives = "it decides by" if source.kind is LineKind.BRANCH else "it gives"
    gives = f"{' or '.join(calls)} gives" if calls else gives
    remedy = f"make what {gives} the same in every run: seed it, sort it, or give it a fixed value"
    remedy = f"make what is in {source.opaque} the same in every run" if source.opaque else remedy
    remedy = "; ".join(row.remedy for row in rows_of(source)) or remedy
    return f"{remedy[:1].upper()}{remedy[1:]}."


def _line(root: Root) -> str:
    return root.called_from or root.location or root.module or "place not recorded"


def _step(root: Root) -> tuple[str, str, str]:
    """The next step for one root, its cause's or its evidence's: title, remedy and line."""
    where, (title, remedy) = _line(root), (root.shows and root.shows.step) or root.cause.step
    is_moved = root.cause in (RootCause.STRUCTURE, RootCause.UNWRITTEN_MEMORY)
    if root.cause is RootCause.DRAW and root.seed is not None and root.seed.first != root.seed.second:
        title, where = "Change the line that seeds generator {name}", root.seed.location or where
        remedy = "Seed with a number that stands in the code or the configuration."
    elif root.cause is RootCause.DRAW and root.earlier is not None:
        title, is_moved = f"Leave generator {{name}} alone after {root.earlier.op}", True
        remedy = "Between this draw and the one before it something that is no recorded call seeded or moved it."
    elif root.loading is not None:
        is_elsewhere = root.shows is Shows.BATCH and root.second
        is_order = is_elsewhere or root.loading.indices_agree is False
        title, remedy = ("Fix the order of {loader}", _ORDER) if is_order else ("Fix the samples of {loader}", _SAMPLES)
    if is_moved and root.earlier is not None:
        where = root.earlier.called_from or root.earlier.location or where
    words = {
        "call": root.region or root.op.removesuffix(".default"),
        "op": root.op,
        "name": root.name,
        "named": f" ({root.name})" if root.name else "",
        "loader": (root.loading.loader if root.loading is not None else "") or "the loader",
        "kind": root.kind.value.replace("-", " ") if root.kind is not None else "state",
    }
    return title.format_map(words).strip(), remedy.format_map(words), where


def _left(repeated: Repeated) -> Iterator[PlannedChange]:
    """Yield changes where all calls agree, the runs leave other results, and nothing that was held explains it."""
    cause = repeated.cause
    is_explained = repeated.proven_lines or (cause is not None and cause.is_certain)
    if repeated.numbered or not repeated.ends or is_explained:
        return
    rows = {row.id: (row, source) for source in repeated.possible[::-1] if (row := source_by_id(source.source))}
    for row, source in [*rows.values()][::-1][:_MOST_POSSIBLE]:
        title = f"Look at the line that {row.name}: it may be what makes them differ, which nothing proves"
        yield PlannedChange(number=0, title=title, remedy=remedy_of(source), where=source.location)
    end = repeated.ends[0]
    of_training = end.kind not in (ValueKind.FILE, ValueKind.OUTPUT)
    how = "No recorded call differs: look for a clock, a name, an order or a number of the machine in what is written"
    if of_training:
        how = "Every recorded call agrees, so something else writes it: a process, a thread, a foreign kernel, `numpy`"
    yield PlannedChange(
        number=0,
        title=f"Find what makes {end.kind.of(end.name)} another one",
        remedy=f"{how}.",
        where="beside the recorded calls" if of_training else "where it is written",
    )

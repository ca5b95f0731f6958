"""Finds the lines at which two runs begin to differ, and proves them, in further runs that follow and hold lines.

Lines are followed in the runs that diverge if these are short, else in two further ones. What the roots among them gave
is kept in a third one, and given to others, one root at a time: a root is proven if such a run agrees with the one that
it is given from. Where a root calls a library, two last ones follow the lines inside that call, and name the library's.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import OF_TRAINING
from tracer.divergence.lines import CLOCK, ComparedLines, LineKind, LineSource, compared_lines, read_run
from tracer.divergence.model import Divergence, Family, Root
from tracer.divergence.repeated import Held, HeldLine
from tracer.errors import TraceError
from tracer.plain import say
from tracer.recording.lines.holding import calls_inside, gave_others, problem_of
from tracer.recording.options import LineOptions
from tracer.tables.sources import Source, source_by_id
from tracer.trace.file import child_path
from tracer.trace.lines import ARGUMENTS, RESULT, TIME_IS_UP

#: Runs of a whole answer, those that diverged included.
MOST_RUNS = 8
#: Roots that are held one at a time, and places at which values are kept.
_MOST_ALONE, _MOST_PLACES = 3, 16
#: Runs in which a line may give by itself what it is given, before that is all that is said.
_MOST_OF_THE_SAME = 3
#: Other places at which one is held.
_MOST_INSTEAD = 3
#: The row of memory that nothing has written.
_UNWRITTEN = "unwritten-memory"
_FAILED = "the run that was given it failed"
#: The name of the run that keeps what lines gave.
KEPT = "kept"


class LineRun(NamedTuple):
    """A run in which lines were followed."""

    trace: Path
    family: Family


class LineRuns(Protocol):
    """Makes runs and compares them."""

    @property
    def left(self) -> int:
        """Runs that may still be made."""

    def values_folder(self) -> Path:
        """A folder for the values of lines."""

    def follow(self, name: str, lines: LineOptions, last_step: int | None, *, anew: bool = False) -> LineRun | None:
        """Make a run whose lines are followed, up to the end of a step; ``None`` if it left nothing to compare.

        ``anew``: it finds the working directory as the first of all runs did, and those after it what it leaves.
        """

    def compare(self, first: Family, second: Family) -> Divergence:
        """Hold two runs against each other."""

    def meets(self, family: Family, last_step: int | None) -> bool:
        """Return whether a run agrees with one in which nothing was held, so that others may agree by luck too."""


class PlainRuns(LineRuns, Protocol):
    """Makes runs that are not recorded too."""

    def otherwise(self, name: str, lines: LineOptions, recorded: Sequence[str]) -> str | None:
        """What a run that is not recorded, and in which lines are held, leaves otherwise than two that were (their
        files' names); ``None`` if nothing tells."""


class FoundLines(NamedTuple):
    """The lines at which runs begin to differ, and what holding them showed."""

    sources: tuple[LineSource, ...] = ()
    held: tuple[HeldLine, ...] = ()
    note: str = ""
    """Why nothing was found, or what it lacks."""

    @property
    def refuted(self) -> set[str]:
        """Lines that were held alone in vain."""
        return {each.lines[0] for each in self.held if each.is_in_vain and len(each.lines) == 1}


def certain(roots: Sequence[Root]) -> tuple[LineSource, ...]:
    """Roots that no further run need prove: draws from a generator that nobody seeded, if there is no other; a loader's
    batches that come in another order though its sampler gave the same indices, from which the others may follow."""
    in_order = lasting_first(roots)
    if in_order and (out_of_order := _out_of_order(in_order[0])):
        return (out_of_order,)
    drawn = [_drawn(root) for root in lasting_first(roots) if root.seed is not None and not root.process]
    found = {each.location: each for each in drawn if each is not None}
    return tuple(found.values()) if len(drawn) == len(roots) and all(drawn) else ()


def _drawn(root: Root) -> LineSource | None:
    """The line of a draw from a generator of torch's whose state differs, unless a line seeded it."""
    is_seeded = root.seed is not None and (not root.seed.is_machines or root.seed.location)
    if root.cause is not RootCause.DRAW or is_seeded or not root.name.startswith(("cpu", "cuda")):
        return None
    at, of = root.called_from or root.location, "cuda" if root.name.startswith("cuda") else "torch"
    drawn = LineSource(location=at, kind=LineKind.DRAW, source=f"draw-{of}", generator=of, reaches=True)
    return replace(drawn, calls=1 + root.same_cause)


def _out_of_order(root: Root) -> LineSource | None:
    """The line that iterates a loader whose batches come as its workers are done."""
    if root.loading is None or not (root.loading.indices_agree and root.second) or root.process:
        return None
    at = root.loading.loader.removeprefix("DataLoader at ")
    path = (root.called_from or root.location,)
    return LineSource(location=at, source="loader-order", reaches=True, path=path, calls=1 + root.same_cause)


def lasting_first(roots: Sequence[Root]) -> list[Root]:
    """Those first whose difference reaches training: that of weights which are then loaded is gone before it."""
    return sorted(roots, key=lambda root: not root.reaches_training)


def with_diverging(sources: tuple[LineSource, ...], held: Sequence[Held]) -> tuple[LineSource, ...]:
    """``sources``, led by the draw at which runs diverge with circumstances held, which hid it where they were free."""
    shown = (each.first for each in held if each.first is not None and not (each.agrees or each.no_proof))
    led = next((_drawn(root) for root in shown if root.reaches_training), None)
    return (led, *(each for each in sources if each.location != led.location)) if led else sources


def needs_lines(divergence: Divergence) -> bool:
    """Return whether lines can tell more of a divergence than its roots do."""
    roots = lasting_first(divergence.roots)
    return not certain(roots) and (not roots or roots[0].cause.is_from_lines)


def known_lines(first: Path, second: Path, divergence: Divergence) -> ComparedLines | None:
    """The lines of the two runs that diverged, if they were followed there and one of them reaches a call."""
    if not needs_lines(divergence):
        return None
    try:
        compared = compared_traces(first, second, divergence)
    except TraceError:
        return None
    is_whole = TIME_IS_UP not in compared.notes
    return compared if is_whole and any(source.reaches for source in compared.sources) else None


def lines_of_time(first: Path, second: Path) -> tuple[LineSource, ...]:
    """The lines that decide by the clock in two runs that agree: what comes of it hangs on how fast they are."""
    try:
        compared = compared_lines(read_run(first), read_run(second))
    except TraceError:
        return ()
    return tuple(replace(source, reaches=True, is_followed=False) for source in compared.timed)


def prove_timed(laboratory: PlainRuns, timed: Sequence[LineSource], note: str) -> FoundLines:
    """Hold lines by which time decides in runs that are not recorded, and differ from those that are."""
    say(f"tracer: at most {laboratory.left} further runs prove the lines that hang on it")
    held = _HoldingTimed(laboratory, timed, {each.location for each in timed}, None, ()).held()
    return FoundLines(_by_proof(timed, held), held, note)


def find_lines(laboratory: LineRuns, divergence: Divergence, known: ComparedLines | None = None) -> FoundLines:
    """Follow lines in two further runs, unless they are ``known``, and hold those that reach a call that differs."""
    if not needs_lines(divergence):
        return FoundLines(certain(divergence.roots))
    lasting = lasting_first(divergence.roots)
    last = lasting[0].step if lasting else None
    if any(loss.step == last and None in (loss.first, loss.second) for loss in divergence.losses):
        last = None  # one run has no such step: what decides is how many there are
    if known is not None:
        say(f"tracer: at most {laboratory.left} further runs prove the lines at which they begin to differ")
        compared = known
    elif laboratory.left < 2:
        return FoundLines(note="no run was left to follow lines")
    else:
        left = laboratory.left
        say(f"tracer: at most {left} further runs: two follow the program's lines, others prove what they show")
        found = _followed(laboratory, LineOptions(anew_at=last or 0), "lines", last)
        if isinstance(found, str):
            return FoundLines(note=found)
        compared, again = found
        last = lasting_first(again.roots)[0].step if again.roots else None
    reaching = [source for source in compared.sources if source.reaches]
    keys = {root.key for root in lasting if root.reaches_training or not lasting[0].reaches_training}
    held = _Holding(laboratory, reaching, compared.first, last, keys).held()
    sources = tuple(_as_seed(each, compared, lasting) for each in _by_proof(compared.sources, held))
    drilled = _drilled(laboratory, sources[0], last) if reaching else None
    if drilled is None:
        return FoundLines(sources, held, "; ".join(compared.notes))
    renamed = {sources[0].location: drilled.location}
    held = tuple(replace(each, lines=tuple(renamed.get(line, line) for line in each.lines)) for each in held)
    return FoundLines((drilled, *sources[1:]), held, "; ".join(compared.notes))


def _followed(
    laboratory: LineRuns, lines: LineOptions, name: str, last: int | None
) -> tuple[ComparedLines, Divergence] | str:
    """Two runs that follow lines, compared, or why not.

    If they agree, what a run leaves as it ends may decide, and two are made that are not ended; or it is chance.
    """
    made = 0
    for until in (last, None):
        if laboratory.left < 2:
            continue
        if made and last is not None:
            say(f"tracer: runs that are ended after step {last} agree; two further ones follow lines to the end")
        first = laboratory.follow(f"{name}-{made + 1}", lines, until, anew=True)
        second = laboratory.follow(f"{name}-{made + 2}", lines, until)
        if first is None or second is None:
            return "a run whose lines were followed left nothing to compare"
        made += 2
        again = laboratory.compare(first.family, second.family)
        if again.differs:
            break
    else:
        return "runs whose lines were followed agree"
    try:
        return compared_traces(first.trace, second.trace, again), again
    except TraceError as problem:
        return str(problem)


def _as_seed(source: LineSource, compared: ComparedLines, roots: Sequence[Root]) -> LineSource:
    """A line that was proven and merely takes what others give, as one that seeds by it, with both numbers."""
    seed = roots[0].seed if roots and source.comes_of and source.location in compared.seeding else None
    if seed is None or "" in (seed.first, seed.second) or seed.first == seed.second:
        return source
    return replace(source, source="seed", first=seed.first, second=seed.second, comes_of=())


def with_left(found: FoundLines, texts: str, left: Iterable[str]) -> FoundLines:
    """``found``, with a file that run 1 was the first to write, if the first line may look at it and ``texts`` name it.

    ``texts``: those of the lines that reach a call, and of their ways.
    """
    named = next((each for each in found.sources if each.reaches), LineSource(location=""))
    row, asks = source_by_id(named.source), source_by_id("file-exists")
    looks = row is not None and (row.id == "seed" or "folder" in row.circumstances)
    if row is None and asks is not None and named.kind is LineKind.BRANCH:  # of what a property gives, say
        methods = {call.rpartition(".")[2] for call in asks.calls}
        looks = not methods.isdisjoint(call.rpartition(".")[2] for call in named.may_call)
    parts = ((path, part) for path in left for part in Path(path).parts)
    path = next((path for path, part in parts if f'"{part}"' in texts or f"'{part}'" in texts), "")
    if not looks or not path:
        return found
    sources = (replace(each, source=each.source or "file-exists") if each is named else each for each in found.sources)
    note = f"run 1 left {path}, which was not there before, and later runs find it"
    return found._replace(sources=tuple(sources), note="; ".join(filter(None, (found.note, note))))


def _by_proof(sources: Sequence[LineSource], held: Sequence[HeldLine]) -> tuple[LineSource, ...]:
    """Proven lines first; one that was held alone in vain, where others were proven, reaches nothing that matters, and
    where none was, it comes behind those that were not.

    A line that merely takes what others give comes behind the one among these that explains it. Last are those with
    which no run came to its end, as long as others were not held in vain.
    """
    proven = [line for each in held if each.agrees for line in each.lines]
    refuted = {line for each in held if each.is_in_vain and proven for line in each.lines}.difference(proven)
    tried = {line for each in held if each.runs for line in each.lines}.difference(proven)
    is_failed = any(each.problem == _FAILED for each in held)
    varying = {each.location for each in sources if (row := source_by_id(each.source)) and row.varies}
    may_follow = any(each.is_blind and each.location in {*proven} - varying for each in sources)
    before = varying - refuted if may_follow else set()
    earlier = takewhile(lambda each: each.location not in proven, sources)  # holding a line covers what it reads
    leading = {each.location for each in earlier if each.is_followed and not {*proven}.isdisjoint(each.path)}
    takes = [each for each in sources if may_follow and each.source and each.is_followed and _is_by_chance(each)]
    found, leads = [], {each.location for each in takes if not {*proven}.isdisjoint(each.path)} - refuted
    for at in (at for at in proven if at not in {each.location for each in sources}):
        behind = [each for each in sources if at in each.path]
        found.append(LineSource(location=at, reaches=True, comes_of=tuple(each.location for each in behind)))
        leading |= {each.location for each in behind}
        able = [each for each in behind if each.is_followed and each.location not in refuted]
        known = [each for each in able if each.source] or [each for each in able if not each.is_blind]
        leads |= {known[0].location} if len(known) == 1 else set()
    for each in sources:
        is_left = not proven or each.location in {*proven, *before, *leading} or _is_by_chance(each)
        reaches = each.reaches and is_left and not (each.is_followed and each.location in refuted - leading)
        followed = each.is_followed or each.location in proven
        found.append(replace(each, reaches=reaches, is_followed=followed))
    first, last = {*proven, *before}, tried - before if is_failed else ()
    in_vain = {each.lines[0] for each in held if each.is_in_vain and len(each.lines) == 1}.difference(proven)

    def place(each: LineSource) -> tuple[bool, ...]:
        at = each.location
        return not each.reaches, at not in leads, at not in first, at in last, at in in_vain

    return tuple(sorted(found, key=place))


def _is_by_chance(source: LineSource) -> bool:
    """Return whether a line that differs in two runs may be alike in two others, in which holding another shows all."""
    row = source_by_id(source.source)
    may = row is not None and (row.is_order or row.id in ("timeout", "done-by-then"))
    return source.kind is LineKind.BRANCH or may


def _drilled(laboratory: LineRuns, source: LineSource, last: int | None) -> LineSource | None:
    """The line of a library, called at a root line, whose values differ first; ``None`` where none is seen."""
    if laboratory.left < 2 or not any(map(_is_librarys, source.may_call)):
        return None
    found = _followed(laboratory, LineOptions(inside=(source.location,)), "inside", last)
    if isinstance(found, str):
        return None
    if any(each.location == source.location for each in found[0].sources):
        return None  # what the library is given differs already
    inside = [each for each in found[0].sources if each.called_from == source.location]
    if source.source != _UNWRITTEN:  # what a library takes, it fills
        inside = [each for each in inside if each.source != _UNWRITTEN]
    named = next((each for each in inside if each.reaches), None) or next(iter(inside), None)
    return named and replace(named, reaches=True, path=(source.location, *source.path))


def _is_librarys(call: str) -> bool:
    """Return whether a qualified name is of an installed package whose lines can be followed."""
    top = call.partition(".")[0]
    try:
        spec = find_spec(top) if top not in ("torch", "numpy", "__main__") else None
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and "-packages" in spec.origin


def compared_traces(first: Path, second: Path, divergence: Divergence) -> ComparedLines:
    """The roots among the lines beside two traces, of the process that diverges first. Raises ``TraceError``."""
    lasting = lasting_first(divergence.roots)
    process = lasting[0].process if lasting else ""
    role = process.removeprefix("child ")
    ours, theirs = (read_run(child_path(trace, role) if role else trace) for trace in (first, second))
    of_process = (root for root in lasting if root.process == process and root.step <= lasting[0].step)
    roots = [root for root in of_process if root.cause.is_from_lines]
    is_of_second = bool(roots) and roots[0].only_second
    calls = [root.call for root in roots if root.only_second == is_of_second]
    compared = compared_lines(*((theirs, ours) if is_of_second else (ours, theirs)), calls)
    if is_of_second:
        sources = (replace(each, first=each.second, second=each.first) for each in compared.sources)
        compared = replace(compared, sources=tuple(sources))
    return with_allocations(compared, roots)


def with_allocations(compared: ComparedLines, roots: Sequence[Root]) -> ComparedLines:
    """``compared``, led by the allocations of unwritten memory that calls read, where no line of a known kind reaches.

    The calls tell what nothing wrote; lines see neither that nor what was written before it is read.
    """
    unwritten = [root for root in roots if root.cause is RootCause.UNWRITTEN_MEMORY]
    made = {each.earlier.location: each.earlier for each in unwritten if each.earlier and each.earlier.location}
    if not made or any(each.reaches and each.source not in ("", _UNWRITTEN) for each in compared.sources):
        return compared
    known = {each.location: each for each in compared.sources}
    reached, led = unwritten[0].called_from or unwritten[0].location, []
    for at, call in made.items():
        new = LineSource(location=at, called_from=call.called_from, held_at=call.called_from or at, path=(reached,))
        led.append(replace(known.pop(at, new), source=_UNWRITTEN, reaches=True))
    led += [replace(each, reaches=each.reaches and each.source != _UNWRITTEN) for each in known.values()]
    return replace(compared, sources=tuple(led), first=compared.first and compared.first.union(made))


class _Try(NamedTuple):
    """Roots, the lines that are held for them, where else they can be, and the place at which they are instead."""

    roots: tuple[str, ...]
    lines: tuple[str, ...]
    way: Sequence[str] = ()
    at: str = ""


class _Holding:
    """Holds roots in further runs: one at a time and then all together, as far as runs are left.

    ``first``: the locations of those that reach the first call that differs, which others explain only by luck.
    ``keys`` identify the roots among the calls, which must agree also where what a shorter run leaves does not show it.
    """

    def __init__(
        self,
        laboratory: LineRuns,
        sources: Sequence[LineSource],
        first: Collection[str],
        last: int | None,
        keys: Collection[tuple[str, ...]],
    ) -> None:
        self._laboratory, self._sources, self._first = laboratory, sources, first
        self._kept, self._last, self._keys = laboratory.values_folder(), last, keys
        self._ways = {source.location: _ways(source, sources) for source in sources}
        self._free: list[str] = []
        """Places of whose values a copy was kept."""
        self._shown: list[HeldLine] = []
        self._later: list[_Try] = []
        """Where else roots are held that were held in vain: something else may enter on their way."""
        self._made = self._instead = 0

    def held(self) -> tuple[HeldLine, ...]:
        """What holding the roots showed."""
        self._show((at for at, way in self._ways.items() if not way), "it gives no value that could be held")
        base = self._base()
        tries = [] if base is None else self._tries()
        may_be_luck = base is not None and self._may_be_luck(base.family)
        while tries and self._laboratory.left and not any(held.agrees for held in self._shown):
            assert base is not None
            tries[:0] = self._try(tries.pop(0), base.family, may_be_luck)
            if not tries and self._laboratory.left > _MOST_INSTEAD:  # circumstances may explain it as well
                tries, self._later = self._later, []
        return tuple(self._shown)

    def _may_be_luck(self, base: Family) -> bool:
        return self._laboratory.meets(base, self._last)

    def _show(self, locations: Iterable[str], problem: str) -> None:
        self._shown += [HeldLine(lines=(at,), agrees=False, problem=problem) for at in locations]

    def _base(self) -> LineRun | None:
        """The run that keeps what the roots gave; ``None`` if it shows nothing."""
        every = (*self._ways.values(), *(source.takers for source in self._sources))
        places = tuple(dict.fromkeys(place for way in every for place in way))[:_MOST_PLACES]
        if not places or self._laboratory.left < 2:
            return None
        decide = [each for each in self._sources if each.kind is LineKind.BRANCH or each.held_at != each.location]
        branches = tuple(each.held_at if each.kind is LineKind.LINE else each.location for each in decide)
        draws = tuple(f"{each.generator} {each.location}" for each in self._sources if each.kind is LineKind.DRAW)
        rows = ((each, source_by_id(each.source)) for each in self._sources)
        choose = [each for each, row in rows if row and _chooses(row)]
        chosen = tuple(place for each in choose for place in self._ways[each.location])
        self._lines = LineOptions(held=places, branches=branches, draws=draws, chosen=chosen, folder=str(self._kept))
        base = self._laboratory.follow(KEPT, self._lines, self._last, anew=True)
        came = 0 if base is None else max(run.values.step_of(len(run.values) - 1) for run in base.family.values())
        if base is not None and self._last is not None and came < self._last - 1:
            slow = f"the run whose values were kept ended in step {came}, before the others diverge"
            self._show((at for at, way in self._ways.items() if way), slow)
            return None
        return base

    def _tries(self) -> list[_Try]:
        """Those of which a copy was kept: each alone, then all."""
        names = {source.location: source.names for source in self._sources}
        for source in self._sources:
            if source.held_at.endswith(ARGUMENTS) or (RESULT in source.names and source.held_at in source.path):
                names[source.held_at] = source.names
        problems = {place: problem_of(self._kept, place, names.get(place, ())) for place in self._lines.held}
        self._free = [place for place in problems if not problems[place]]
        roots: dict[str, list[str]] = {}
        for at, way in self._ways.items():
            if place := next((place for place in way if place in self._free), ""):
                roots.setdefault(place, []).append(at)
            elif way:
                self._show([at], problems.get(way[0], "more lines reach a call than values are kept of"))
        alone = [place for place in roots if not self._first or not set(roots[place]).isdisjoint(self._first)]
        decide = {each.location for each in self._sources if each.kind is LineKind.BRANCH and each.source}
        alone.sort(key=lambda place: decide.isdisjoint(roots[place]))  # what they decide by is given with them

        def tried(places: Sequence[str], way: Sequence[str] = (), at: str = "") -> _Try:
            named = tuple(at for place in places for at in roots[place])  # a draw, and who takes its number
            takers = (taker for each in self._sources if each.location in named for taker in each.takers)
            beside = (place for place in (*named, *takers) if place in self._free)
            return _Try(named, tuple(dict.fromkeys((*places, *beside))), way, at)

        tries = []
        for place in alone[:_MOST_ALONE]:
            ways = dict.fromkeys(other for at in roots[place] for other in self._ways[at])
            tries.append(tried([place], tuple(ways), "" if place in roots[place] else place))
        return [*tries, tried([*roots])] if len(roots) > 1 and alone else tries

    def _try(self, tried: _Try, base: Family, may_be_luck: bool) -> list[_Try]:
        """Hold lines, again where chance may play a part; return where to hold them instead, if that shows nothing."""
        lines = tried.lines
        may_be_luck |= any(each.is_threads and each.location in tried.roots for each in self._sources)
        agrees, problem, runs, is_new = True, "", 0, False
        while agrees and self._laboratory.left and (runs <= may_be_luck or (not is_new and runs < _MOST_OF_THE_SAME)):
            agrees, problem = self._agrees(lines, base)
            runs, is_new = runs + 1, any(gave_others(self._kept, place) for place in lines)
        wholes = {each.location for each in self._sources if each.held_at == each.location and not each.is_threads}
        is_refuted = not agrees and not problem and is_new and wholes.issuperset(lines)
        is_to_go_on = not agrees and not is_refuted
        if not problem and not is_new:
            agrees, problem = False, "it gave the same by itself in that run"
        elif agrees and runs <= may_be_luck:
            agrees, problem = False, "runs in which nothing is held may agree by luck, and no run was left"
        elif not agrees and not problem and not is_refuted:
            problem = "not all that it gives could be given"
        if agrees and (again := self._read_again(tried)):
            agrees, problem = False, f"{again} reads the clock too, and what comes of both may agree by luck"
        passed = tried.way.index(lines[0]) if problem == _FAILED and lines[0] in tried.way else -1
        others = [place for place in tried.way[passed + 1 :] if place in self._free and place not in lines]
        if is_to_go_on and others and self._laboratory.left and self._instead < _MOST_INSTEAD:
            self._instead += 1
            there = others[len(others) // 2 if problem == _FAILED else 0]
            return [_Try(tried.roots[:1], (there,), others, there)]
        roots = self._proven(tried) if agrees else tried.roots
        at = "" if roots == (tried.at,) else tried.at.removesuffix(ARGUMENTS)
        self._shown.append(HeldLine(lines=roots, agrees=agrees, runs=runs, problem=problem, at=at))
        if is_refuted and others:
            self._later.append(_Try(tried.roots[:1], (others[0],), others, others[0]))
        return []

    def _read_again(self, tried: _Try) -> str:
        """Where the clock is read beside a time that was given: what a run makes of both shows nothing, unless the
        decision itself is given, or what follows from them."""
        clocks = [each for each in self._sources if each.source == CLOCK]
        own = [each for each in clocks if each.location in tried.roots]
        beside = (each.location for each in clocks if each not in own and {*tried.roots}.isdisjoint(each.path))
        return next(beside, "") if not all(each.is_time_limit for each in own) else ""

    def _proven(self, tried: _Try) -> tuple[str, ...]:
        """The roots of which holding lines shows something: those held, and whatever else may enter there.

        A root that was held in vain, of which all the way is known, is none of the others; and where more may enter
        before a later place than roots give, what is proven is that place.
        """
        proven: dict[str, None] = {}
        in_vain = {each.lines[0] for each in self._shown if each.runs and not each.problem and len(each.lines) == 1}
        for place in tried.lines:
            own = [each for each in self._sources if each.location in {*tried.roots} - in_vain]
            own = [each for each in own if place in (each.location, each.held_at, *each.path)]
            others = [each for each in self._sources if each not in own and each.is_followed and place in each.path]
            others = [each for each in others if not (each.location in in_vain and place in each.closed)]
            is_own = any(place not in each.path for each in own)
            every = (*own, *others)
            is_known = is_own or (bool(every) and all(place in each.closed for each in every))
            proven |= dict.fromkeys([each.location for each in every] if is_known else [place])
        return tuple(proven)

    def _agrees(self, lines: tuple[str, ...], base: Family) -> tuple[bool, str]:
        """Return whether a run that is given what ``lines`` gave agrees with ``base``, and why it shows nothing."""
        self._made += 1
        given = replace(self._lines, held=lines, gives=True)
        run = self._laboratory.follow(f"given-{self._made}", given, self._last)
        if run is None:
            return False, _FAILED
        divergence, until = self._laboratory.compare(base, run.family), math.inf if self._last is None else self._last
        inside = [calls for place in lines for calls in calls_inside(self._kept, place)]
        every = (*divergence.roots, *(root for root in divergence.without_effect if root.key in self._keys))
        outside = [root for root in every if not any(root.call in calls for calls in inside)]
        left = [root for root in outside if root.step <= until]
        goes_on = len(left) < len(outside)  # one of the two was not ended after that step: it has an end of its own
        if left or (not goes_on and any(end.kind in OF_TRAINING for end in divergence.ends)):
            return False, next(filter(None, (problem_of(self._kept, place) for place in lines)), "")
        problem = _ends_early(divergence, base, run.family, until)
        end = divergence.calls[1]  # a child process goes on after its last recorded call
        if not problem and inside and max((calls.stop for calls in inside if calls.start < end), default=end) >= end:
            problem = "no call comes after it"
        if not problem and any(root.reaches_training and root.step <= until for root in every if root not in outside):
            problem = "not all that it gives could be given"  # what it computed before goes on
        return not problem, problem


class _HoldingTimed(_Holding):
    """Holds lines in runs that are not recorded, which take their own time and differ from those that are."""

    _laboratory: PlainRuns

    def _may_be_luck(self, base: Family) -> bool:
        return False

    def _read_again(self, tried: _Try) -> str:
        return ""

    def _proven(self, tried: _Try) -> tuple[str, ...]:
        return tried.roots

    def _base(self) -> LineRun | None:
        base = super()._base()
        if base is not None:
            self._other = "1" if self._laboratory.meets(base.family, self._last) else KEPT
        return base

    def _agrees(self, lines: tuple[str, ...], base: Family) -> tuple[bool, str]:
        self._made += 1
        given = replace(self._lines, held=lines, gives=True)
        left = self._laboratory.otherwise(f"given-{self._made}", given, (KEPT, self._other))
        if not left:
            return left is not None, _FAILED if left is None else ""
        problem = next(filter(None, (problem_of(self._kept, place) for place in lines)), "")
        return False, problem or ("runs that are recorded differ too" if self._other == KEPT else "")


def _ends_early(divergence: Divergence, base: Family, run: Family, until: float) -> str:
    """Why two runs that agree show nothing: one ended before it had made all calls of the other, up to a step's end."""
    for side, family in enumerate((base, run)):
        values = [recording.values for recording in family.values()]
        later = sum(len(each) - bisect_right(range(len(each)), until, key=each.step_of) for each in values)
        if divergence.calls[side] - divergence.calls_compared - divergence.only[side] > later:
            few, many = sorted(divergence.calls)
            return f"it made {few:,} calls, and the run that gave the values {many:,}: one of the two ended early"
    return ""


def _chooses(row: Source) -> bool:
    """Return whether a line takes what there is, in an order or one of several, rather than something new."""
    return row.is_order or not {"addresses", "hash-seed"}.isdisjoint(row.circumstances)


def _ways(source: LineSource, sources: Sequence[LineSource]) -> tuple[str, ...]:
    """Where what a line gives can be held: there, or at the next lines on the way, should no copy be kept of it.

    Up to the next root: what is proven from there on may be that one's.
    """
    others = {each.location for each in sources} - {source.location}
    after = [*takewhile(lambda place: place not in others, source.path)]
    if RESULT not in source.names:  # no line but the last may take a number that a function returns
        after = after[: len(source.path) - 1]
    after = [place for place in after if place != source.held_at]
    some = (source.held_at, *after[:2], *after[len(after) // 2 :][:1], *after[-1:])
    row = source_by_id(source.source)
    own = (source.location,) if row is not None and _chooses(row) else ()
    return tuple(dict.fromkeys((*own, *some))) if source.held_at else ()

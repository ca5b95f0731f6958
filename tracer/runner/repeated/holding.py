"""Finds the circumstance that explains why runs diverge, in a bounded number of further runs.

First all circumstances are held, twice. If these two runs agree, a run that holds a single circumstance agrees with
them only if that circumstance decides, so each further question costs one run. Addresses depend on whatever else is
held, and settings and threads change what is computed: a run that differs in these is made twice and compared with
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, Protocol

from tracer.divergence import Divergence, compare_recordings
from tracer.divergence.causes import RootCause
from tracer.divergence.families import children_of, compare_families
from tracer.divergence.model import Root
from tracer.divergence.process_pairs import siblings
from tracer.divergence.recordings import Family
from tracer.divergence.repeated import Held
from tracer.findings import Finding
from tracer.runner.repeated.circumstances.declared import Circumstance, in_order
from tracer.trace.file import Trace
from tracer.trace.values import Values

#: The most further runs, unless circumstances are named.
MOST_RUNS = 6

Holds = frozenset[Circumstance]

#: Causes that may lie in the order in which workers come.
_BY_WORKERS = (RootCause.INPUT_DATA, RootCause.OUTSIDE_CHANGE, RootCause.UNKNOWN)

#: Shown if all runs but the first agree, with or without anything held.
_SETTLED = (
    "run 1 differs by chance, as where threads race, or what it left reaches them from where it is not held: a cache,"
    " the home folder, a service"
)


class Tried(NamedTuple):
    """A run with some circumstances held; none in the runs that diverge."""

    held: Holds
    recording: Family | None
    """By process; ``None`` if nothing was recorded."""
    problem: str = ""
    """The reason why it proves nothing, even if it agrees."""
    unused: Holds = frozenset()
    """Held circumstances that the program never asked for: they decide nothing."""


class Shown(NamedTuple):
    """The comparison of two runs."""

    agrees: bool
    first: Root | None = None
    """The first root, if any."""


class Laboratory(Protocol):
    """Makes runs and compares them."""

    def run(self, held: Holds) -> Tried | None:
        """Make a run with ``held`` held; ``None`` if a signal asked this process to end."""

    def compare(self, first: Family, second: Family) -> Shown:
        """Return whether the two agree wherever the runs with nothing held diverge."""


@dataclass
class _Entry:
    """The outcome of holding one set of circumstances."""

    held: Holds
    runs: int
    shown: Shown
    is_all: bool = False
    is_cause: bool = False
    is_certain: bool = True
    """Whether it was confirmed, as far as the number of runs allows."""
    no_proof: str = ""
    shows: str = ""

    @property
    def proves(self) -> bool:
        """Whether runs with it held agree, and make the same calls as without."""
        return self.shown.agrees and not self.no_proof


@dataclass
class Search:
    """Finds what explains why the ``unheld`` runs diverge, by making further runs in ``laboratory``."""

    laboratory: Laboratory
    unheld: Sequence[Tried]
    """Two or more diverging runs with nothing held."""
    candidates: Sequence[Circumstance]
    """The circumstances that can be held here."""
    suspected: Sequence[Circumstance] = ()
    """The candidates that the roots suggest, in order."""
    sure: int = 0
    """The number of these that the source of a number or an order suggests, not just a root's cause."""
    all_at_once: bool = False
    """Hold what changes the computation from the start as well."""
    most: int = MOST_RUNS
    _runs: list[Tried] = field(default_factory=list)
    _entries: list[_Entry] = field(default_factory=list)

    def find(self) -> tuple[Held, ...]:
        """Make the runs; the result says what each set of circumstances showed."""
        together = [
            circumstance
            for circumstance in self.candidates
            if circumstance.is_chance or self.all_at_once or circumstance in self.suspected
        ]
        rest = [circumstance for circumstance in self.candidates if circumstance not in together]
        if not together:
            together, rest = rest, []
        everything = _with_required(together)
        entry = self._twice(everything, is_all=True)
        if entry is None:
            pass
        elif entry.no_proof:
            self._each_alone(self.suspected or together)
        elif entry.shown.agrees:
            unused = self._runs[0].unused & self._runs[1].unused
            used = [circumstance for circumstance in together if circumstance not in unused]
            self._narrow(everything, _noted_use_first(used))
        elif rest:
            self._hold_the_rest(everything, rest)
        return tuple(map(_report_fact, self._entries))

    # --- runs ---

    @property
    def _left(self) -> int:
        return self.most - len(self._runs)

    def _make(self, held: Holds) -> Tried | None:
        if self._left <= 0:
            return None
        tried = self.laboratory.run(held)
        if tried is None:
            self.most = 0
            return None
        self._runs.append(tried)
        return tried

    def _compare(self, first: Tried, second: Tried) -> Shown:
        if first.recording is None or second.recording is None:
            return Shown(agrees=False)
        return self.laboratory.compare(first.recording, second.recording)

    def _twice(self, held: Holds, *, is_all: bool = False) -> _Entry | None:
        """Make two runs with ``held`` held and compare them; one is enough if it proves nothing."""
        run = self._make(held) if self._left > 1 else None
        if run is None:
            return None
        if run.problem:
            return self._note(held, [run], Shown(agrees=False), is_all=is_all)
        again = self._make(held)
        return None if again is None else self._note(held, [run, again], self._compare(run, again), is_all=is_all)

    def _note(self, held: Holds, runs: Sequence[Tried], shown: Shown, *, is_all: bool = False, more: int = 0) -> _Entry:
        no_proof = next((run.problem for run in runs if run.problem), "")
        entry = _Entry(held, len(runs) + more, shown, is_all=is_all, no_proof=no_proof)
        self._entries.append(entry)
        return entry

    # --- what to try ---

    def _narrow(self, everything: Holds, together: Sequence[Circumstance]) -> None:
        """Runs agree with everything held: find the circumstances that suffice."""
        if self._agrees_with_the_second_alone() and self._agrees_with_nothing_held():
            return
        needed: Holds = frozenset()
        left = list(together)
        if Circumstance.ADDRESSES in left:
            left.remove(Circumstance.ADDRESSES)
        proven: Holds | None = everything if len(everything) == 1 else None
        suspected = [circumstance for circumstance in self.suspected if circumstance in left]
        for circumstance in suspected[: max(1, min(2, self.sure))]:
            if proven is None:
                left.remove(circumstance)
                entry = self._suffices(needed | {circumstance})
                if entry is None:
                    return
                needed = needed | {circumstance} if self._explains_first(entry) else needed
                proven = entry.held if entry.proves else None
        if Circumstance.ADDRESSES in together:
            left.append(Circumstance.ADDRESSES)
        while left and (proven is None or len(proven - needed) > len(_with_required(left[:1]))):
            if left == [Circumstance.ADDRESSES]:
                self._free_addresses(everything)
                return
            half = left[: (len(left) + 1) // 2] if len(left) > 1 else left
            # What memory holds where zeros do not reach depends on everything else that is held.
            by_itself = left == [Circumstance.MEMORY]
            entry = self._suffices(_with_required([*needed, *half]), by_itself=by_itself)
            if entry is None:
                if proven is not None and len(left) == 1:
                    self._by_elimination(needed.union(left), proven)
                return
            if entry.proves:
                left, proven = list(half), entry.held
            else:
                needed = needed.union(half) if self._explains_first(entry) else needed
                left = left[len(half) :]
        if proven is not None:
            self._conclude(self._smallest(proven, needed), everything)

    def _smallest(self, proven: Holds, needed: Holds) -> Holds:
        """``proven`` without what is ``needed`` only as far as runs that hold it alone diverge elsewhere.

        Numbers that vary in each run diverge elsewhere by chance.
        """
        for circumstance in in_order(needed):
            rest = proven - {circumstance}
            if not rest or rest != _with_required(rest):
                continue
            entry = self._suffices(rest)
            if entry is not None and entry.proves:
                proven = rest
        return proven

    def _by_elimination(self, cause: Holds, proven: Holds) -> None:
        """No run is left: ``proven`` suffices, and ``proven`` without ``cause`` does not."""
        runs = next(entry.runs for entry in self._entries if entry.held == proven)
        self._entries.append(_Entry(cause, runs, Shown(agrees=True), is_cause=True))

    def _free_addresses(self, everything: Holds) -> None:
        """Hold all but addresses, which depend on the rest: runs may differ, and agree again with addresses held."""
        reference = self._runs[0]
        without = everything - {Circumstance.ADDRESSES}
        free = self._make(without)
        if free is None or self._note(without, [free], self._compare(reference, free)).shown.agrees:
            return
        again = self._make(everything)
        if again is None or self._compare(reference, again).agrees:
            runs = sum(run.held == everything for run in self._runs)
            cause = _with_required([Circumstance.ADDRESSES])
            self._entries.append(_Entry(cause, runs, Shown(agrees=True), is_cause=True))

    def _agrees_with_the_second_alone(self) -> bool:
        """Return whether a run with everything held agrees with the second run, but not with the first."""
        first, second = (self._compare(self._runs[0], run).agrees for run in self.unheld[:2])
        return second and not first

    def _agrees_with_nothing_held(self) -> bool:
        """Return whether a further run with nothing held agrees. Then only the first run differs from the rest."""
        run = self._make(frozenset())
        if run is None or not self._compare(self._runs[0], run).agrees:
            return False
        entry = self._note(frozenset(), [run], Shown(agrees=True), more=2)
        entry.shows = _SETTLED
        return True

    def _suffices(self, held: Holds, *, by_itself: bool = False) -> _Entry | None:
        """Run with only ``held`` held, and compare with the first run, or else with one more (``by_itself``).

        ``None`` if no run is left.
        """
        reference = self._runs[0]
        run = self._make(held)
        if run is None:
            return None
        shown = self._compare(reference, run)
        changed = {circumstance for circumstance in reference.held - held if not circumstance.is_chance}
        if shown.agrees or not (changed or by_itself or Circumstance.ADDRESSES in held):
            return self._note(held, [run], shown, more=2 if shown.agrees else 0)
        again = self._make(held)
        return None if again is None else self._note(held, [run, again], self._compare(run, again))

    def _explains_first(self, entry: _Entry) -> bool:
        """Return whether runs no longer diverge where they diverged first."""
        first = self._compare(*self.unheld[:2]).first
        now = entry.shown.first
        return not entry.no_proof and None not in (first, now) and first.key[1:] != now.key[1:]  # type: ignore[union-attr]

    def _conclude(self, cause: Holds, everything: Holds) -> None:
        """``cause`` suffices; it is the cause if runs differ without it, and not just by chance."""
        entry = next(entry for entry in reversed(self._entries) if entry.held == cause)
        reference = self._runs[0]
        if not all(circumstance.is_chance for circumstance in cause) and entry.runs < 3:
            again = self._make(cause)
            if again is not None:
                entry.runs += 1
                entry.shown = self._compare(self._last(cause), again)
            if not entry.shown.agrees:
                return
        free = [run for run in (*self._runs, *self.unheld) if not cause <= run.held]
        differ_all = not any(self._compare(reference, run).agrees for run in self.unheld)
        differs = differ_all or any(not self._compare(reference, run).agrees for run in free if run.held)
        without = everything - cause - {Circumstance.ADDRESSES}
        while not differs and (run := self._make(without)) is not None:
            differs = not self._note(without, [run], self._compare(reference, run), more=1).shown.agrees
        if not differ_all and (again := self._make(cause)) is not None:  # of few outcomes, three may agree by chance
            entry.runs += 1
            entry.shown = self._compare(self._last(cause), again)
        if not entry.shown.agrees:
            return
        if differs and not cause <= {*self.suspected[: self.sure], Circumstance.ADDRESSES, Circumstance.HASH_SEED}:
            differs = self._is_needed(entry, everything)
        entry.is_cause = differs
        if not differs:
            entry.no_proof = "runs agree without it as well, as far as that was tried"

    def _is_needed(self, entry: _Entry, everything: Holds) -> bool:
        """Return whether runs differ with all but the cause held. That it sufficed once may have been chance.

        If they agree, the cause is among what was held besides it in the runs that agreed before.
        """
        cause, reference = entry.held, self._runs[0]
        without = everything - cause - {Circumstance.ADDRESSES} - (reference.unused & self._runs[1].unused)
        run = next((run for run in self._runs if without <= run.held and not cause <= run.held), None)
        run = run or self._make(without)
        if run is None:
            entry.is_certain = False
            return True
        if not self._compare(reference, run).agrees:
            return True
        self._note(without, [run], Shown(agrees=True), more=2)
        wider = [other.held - cause for other in self._entries if other.proves and cause < other.held]
        failed = [other.held for other in self._entries if len(other.held) == 1 and not other.shown.agrees]
        rest = min(wider, key=len, default=frozenset[Circumstance]()).difference(reference.unused, *failed)
        if len(rest) == 1 and (other := self._suffices_or_may(rest)) is not None:
            other.is_cause = True
        return False

    def _suffices_or_may(self, held: Holds) -> _Entry | None:
        """Run with only ``held`` held: the entry, if the runs agree. If no run is left, it is assumed that they do."""
        if self._left > 0:
            entry = self._suffices(held)
            return entry if entry is not None and entry.proves else None
        entry = _Entry(held, 2, Shown(agrees=True), is_certain=False)
        self._entries.append(entry)
        return entry

    def _last(self, held: Holds) -> Tried:
        """The second-latest run with only ``held`` held."""
        return [run for run in self._runs if run.held == held][-2]

    def _hold_the_rest(self, everything: Holds, rest: Sequence[Circumstance]) -> None:
        """Runs diverge with everything held that varies by chance: hold what changes the computation as well."""
        entry = self._twice(everything.union(rest), is_all=True)
        if entry is not None and entry.proves:
            used = [circumstance for circumstance in rest if circumstance not in self._runs[-1].unused]
            self._each_alone(_noted_use_first(used))

    def _each_alone(self, circumstances: Iterable[Circumstance]) -> None:
        """Hold one circumstance at a time, twice each, until runs agree."""
        for circumstance in dict.fromkeys(circumstances):
            entry = self._twice(_with_required([circumstance]))
            if entry is None:
                return
            if entry.proves:
                entry.is_cause = True
                return


def _noted_use_first(circumstances: Iterable[Circumstance]) -> list[Circumstance]:
    """Those whose use is noted come first: the program did ask for them."""
    return sorted(circumstances, key=lambda circumstance: not circumstance.notes_use)


def _with_required(circumstances: Iterable[Circumstance]) -> Holds:
    """Addresses depend on the order of hashes, so the hash seed is held with them."""
    held = frozenset(circumstances)
    return held | {Circumstance.HASH_SEED} if Circumstance.ADDRESSES in held else held


def _report_fact(entry: _Entry) -> Held:
    """An entry as the report's record, its circumstances in the order of declaration."""
    circumstances = in_order(entry.held)
    implied = Circumstance.HASH_SEED if Circumstance.ADDRESSES in circumstances else None
    chosen = [circumstance for circumstance in circumstances if circumstance is not implied]
    is_few = len(chosen) <= 2
    return Held(
        circumstances=tuple(circumstance.value for circumstance in circumstances),
        is_all=entry.is_all,
        agrees=entry.shown.agrees,
        runs=entry.runs,
        is_cause=entry.is_cause,
        is_certain=entry.is_certain,
        clause=" and ".join(circumstance.held_clause for circumstance in chosen),
        shows=entry.shows or ("; ".join(circumstance.shows for circumstance in chosen) if is_few else ""),
        remedy="; ".join(circumstance.remedy for circumstance in chosen) if is_few else "",
        cannot="; ".join(choice.held.cannot for choice in chosen if choice.held is not None) if is_few else "",
        no_proof=entry.no_proof,
        first=entry.shown.first,
    )


class Comparing:
    """Compares runs by what differs between the runs with nothing held; ``findings`` returns the first one's."""

    def __init__(self, unheld: Sequence[Family], findings: Callable[[], Sequence[Finding] | None]) -> None:
        self.unheld = unheld
        self._findings = findings
        self.divergence = self._divergence(unheld[0], unheld[1])
        self._left_otherwise = {(end.kind, end.name) for end in self.divergence.ends}

    def compare(self, first: Family, second: Family) -> Shown:
        """If only what the runs leave behind differs, two runs agree if they leave it in the same state."""
        divergence = self._divergence(first, second)
        left = {(end.kind, end.name) for end in divergence.ends} & self._left_otherwise
        return Shown(divergence.agrees and not (self.divergence.agrees and left), divergence.first)

    def other_calls(self, family: Family) -> str:
        """Says that a run makes other calls than those with nothing held; empty if it does not.

        Processes that come in any order are not held against theirs.
        """
        for key, roles in siblings(family, children_of(family)).items():
            for role in () if key[-1] else roles:
                theirs = [unheld[role].values for unheld in self.unheld if role in unheld]
                if theirs and not makes_calls_of(family[role].values, theirs):
                    return f"child {role} makes other calls then"
        makes_theirs = makes_calls_of(family[""].values, [unheld[""].values for unheld in self.unheld])
        return "" if makes_theirs else "the script makes other calls then"

    def _divergence(self, first: Family, second: Family) -> Divergence:
        return compare_families(
            first,
            second,
            lambda ours, theirs: compare_recordings(ours, theirs, may_resume=False, findings=self._findings),
        )


def suspects(
    roots: Sequence[Root], candidates: Sequence[Circumstance], trace: Trace | None = None
) -> tuple[list[Circumstance], int]:
    """The ``candidates`` that the roots suggest, and how many of them a root's source suggests.

    Those come first, then the candidates that the cause of the first root suggests; of data that differ, or state that
    no root explains, workers that ``trace`` met (threads, processes, a loader's) are suspected before.
    """
    spots = {spot.kind for spot in trace.blind_spots} if trace is not None else set()
    hints: list[str] = [*spots] if not roots or roots[0].cause in _BY_WORKERS else []
    hinted = [candidate for candidate in candidates if candidate.suggested_by.intersection(hints)]
    words = [word for root in roots for word in _sources(root)]
    sure = dict.fromkeys(candidate for word in words for candidate in candidates if word in candidate.suggested_by)
    weak = dict.fromkeys(candidate for candidate in candidates if roots and roots[0].cause in candidate.suggested_by)
    return list(sure | dict.fromkeys(hinted) | weak), len(sure)


def _sources(root: Root) -> Iterable[str]:
    reason = root.reason
    if reason is None:
        return
    if reason.seed is not None and reason.seed.source is not None:
        yield reason.seed.source
    if reason.seed is not None and reason.seed.is_machines:
        yield "entropy"
    for taken in reason.taken:
        yield taken.source if taken.source is not None else "entropy"
    for outside in reason.outside:
        yield outside.kind


# --- whether it is still the same program ---

_CallKind = tuple[str, ...]
_LINE = itemgetter(3, 4)


def makes_calls_of(values: Values, others: Sequence[Values]) -> bool:
    """Return whether these are the calls of one of ``others``, or calls of the same kinds.

    How often a loop goes round may be what varies: it is enough that the kinds of calls are theirs, all that they have
    in common and none that none of them has. Where the kinds are what varies, it is enough that calls are made at the
    lines that all of them have.
    """
    ours, theirs = _calls(values), [_calls(other) for other in others]
    if ours in theirs:
        return True
    kinds = [set(other) for other in theirs]
    shared, all_kinds = set.intersection(*kinds), set.union(*kinds)
    if shared == all_kinds:
        return set(ours) == shared
    return set(map(_LINE, shared)) <= set(map(_LINE, ours))


def _calls(values: Values) -> list[_CallKind]:
    kinds = [(group.op, group.phase.value, group.module, group.location, group.function) for group in values.groups]
    return [kinds[number] for number in values.group.tolist()]

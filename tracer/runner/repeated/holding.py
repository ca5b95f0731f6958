"""Which circumstance explains why runs part: further runs in which some are held, a bounded number of them.

First all are held, twice. Where these two runs agree, a run in which one circumstance is held and all others are free
agrees with them only if it is that one which decides; so each further question costs one run. Addresses hang on all
that is held beside them, and settings and threads change what is computed: a run that differs in these is made twice,
and held against itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tracer.divergence import Recording, compare_recordings
from tracer.divergence.model import Root
from tracer.divergence.repeated import Held
from tracer.divergence.same_calls import makes_calls_of
from tracer.runner.repeated.circumstances.declared import Circumstance

#: Further runs that are made at most, unless circumstances are named.
MOST_RUNS = 6

Holds = frozenset[Circumstance]

#: What it shows that every run but the first agrees, whatever is held.
_SETTLED = "what the first run left reaches them, from where it is not held: a cache, the home folder, a service"


class Tried(NamedTuple):
    """A run in which some circumstances were held; none, in those that part."""

    held: Holds
    recording: Recording | None
    """``None`` where nothing was recorded."""
    problem: str = ""
    """Why it is no proof, whatever it shows."""
    unused: Holds = frozenset()
    """What was held in it of which the program asked nothing: it decides nothing."""


class Shown(NamedTuple):
    """What two runs show together."""

    agrees: bool
    first: Root | None = None
    """Where they part."""


class Laboratory(Protocol):
    """Makes runs and compares them."""

    def run(self, held: Holds) -> Tried | None:
        """A run in which ``held`` are held; ``None`` where a signal is to end everything."""

    def compare(self, one: Tried, other: Tried) -> Shown:
        """Do the two agree in all in which the runs part that nothing was held in?"""


@dataclass
class _Entry:
    """What was found of one set of circumstances."""

    held: Holds
    runs: int
    shown: Shown
    is_all: bool = False
    is_cause: bool = False
    no_proof: str = ""
    shows: str = ""

    @property
    def proves(self) -> bool:
        """Do runs agree for it, and make the calls that they made without?"""
        return self.shown.agrees and not self.no_proof


@dataclass
class Search:
    """Finds what explains why ``unheld`` runs part, by making further ones in ``laboratory``."""

    laboratory: Laboratory
    unheld: Sequence[Tried]
    """Two runs or more that part, with nothing held."""
    candidates: Sequence[Circumstance]
    """What can be held here."""
    suspected: Sequence[Circumstance] = ()
    """Those of them that the roots suggest, in order."""
    sure: int = 0
    """So many of these are suggested by what a number or an order was made from, and not by the roots' causes alone."""
    all_at_once: bool = False
    """Hold what changes the computation from the beginning, too."""
    most: int = MOST_RUNS
    _made: list[Tried] = field(default_factory=list)
    _entries: list[_Entry] = field(default_factory=list)

    def find(self) -> tuple[Held, ...]:
        """Make the runs, and say what each set of circumstances showed."""
        together = [one for one in self.candidates if one.is_chance or self.all_at_once or one in self.suspected]
        rest = [one for one in self.candidates if one not in together]
        if not together:
            together, rest = rest, []
        everything = _with_required(together)
        entry = self._twice(everything, is_all=True)
        if entry is None:
            pass
        elif entry.no_proof:
            self._each_alone(self.suspected or together)
        elif entry.shown.agrees:
            unused = self._made[0].unused & self._made[1].unused
            used = [one for one in together if one not in unused]
            self._narrow(everything, sorted(used, key=lambda one: one.held is None or not one.held.notes_use))
        elif rest:
            self._hold_the_rest(everything, rest)
        return tuple(map(_told, self._entries))

    # --- runs ---

    @property
    def _left(self) -> int:
        return self.most - len(self._made)

    def _make(self, held: Holds) -> Tried | None:
        if self._left <= 0:
            return None
        tried = self.laboratory.run(held)
        if tried is None:
            self.most = 0
            return None
        self._made.append(tried)
        return tried

    def _compare(self, one: Tried, other: Tried) -> Shown:
        if one.recording is None or other.recording is None:
            return Shown(agrees=False)
        return self.laboratory.compare(one, other)

    def _twice(self, held: Holds, *, is_all: bool = False) -> _Entry | None:
        """Two runs in which ``held`` are held, against each other; one, where that is no proof already."""
        one = self._make(held) if self._left > 1 else None
        if one is None:
            return None
        if one.problem:
            return self._note(held, [one], Shown(agrees=False), is_all=is_all)
        other = self._make(held)
        return None if other is None else self._note(held, [one, other], self._compare(one, other), is_all=is_all)

    def _note(self, held: Holds, runs: Sequence[Tried], shown: Shown, *, is_all: bool = False, more: int = 0) -> _Entry:
        no_proof = next((run.problem for run in runs if run.problem), "")
        entry = _Entry(held, len(runs) + more, shown, is_all=is_all, no_proof=no_proof)
        self._entries.append(entry)
        return entry

    # --- what to try ---

    def _narrow(self, everything: Holds, together: Sequence[Circumstance]) -> None:
        """With all held the runs agree: find those that suffice."""
        if self._agrees_with_the_second_alone() and self._agrees_with_nothing_held():
            return
        kept: Holds = frozenset()
        left: list[Circumstance] = [one for one in together if one is not Circumstance.ADDRESSES]
        proven: Holds | None = everything if len(everything) == 1 else None
        for one in [one for one in self.suspected if one in left][: max(1, min(2, self.sure))]:
            if proven is None:
                left.remove(one)
                entry = self._suffices(kept | {one})
                if entry is None:
                    return
                kept = kept | {one} if self._explains_first(entry) else kept
                proven = entry.held if entry.proves else None
        if Circumstance.ADDRESSES in together:
            left.append(Circumstance.ADDRESSES)
        while left and (proven is None or len(proven - kept) > len(_with_required(left[:1]))):
            if left == [Circumstance.ADDRESSES]:
                self._free_addresses(everything)
                return
            half = left[: (len(left) + 1) // 2] if len(left) > 1 else left
            entry = self._suffices(_with_required([*kept, *half]))
            if entry is None:
                if proven is not None and len(left) == 1:
                    self._by_elimination(kept.union(left), proven)
                return
            if entry.proves:
                left, proven = list(half), entry.held
            else:
                kept = kept.union(half) if self._explains_first(entry) else kept
                left = left[len(half) :]
        if proven is not None:
            self._conclude(proven, everything)

    def _by_elimination(self, cause: Holds, proven: Holds) -> None:
        """No run is left: ``proven`` suffices, and all of it but ``cause`` does not."""
        runs = next(entry.runs for entry in self._entries if entry.held == proven)
        self._entries.append(_Entry(cause, runs, Shown(agrees=True), is_cause=True))

    def _free_addresses(self, everything: Holds) -> None:
        """Hold all but addresses, which hang on all that is held: do runs differ, and agree again with them held?"""
        reference = self._made[0]
        without = everything - {Circumstance.ADDRESSES}
        free = self._make(without)
        if free is None or self._note(without, [free], self._compare(reference, free)).shown.agrees:
            return
        again = self._make(everything)
        if again is None or self._compare(reference, again).agrees:
            runs = sum(run.held == everything for run in self._made)
            cause = _with_required([Circumstance.ADDRESSES])
            self._entries.append(_Entry(cause, runs, Shown(agrees=True), is_cause=True))

    def _agrees_with_the_second_alone(self) -> bool:
        """Does a run in which all is held agree with the second run, and not with the first?"""
        first, second = (self._compare(self._made[0], run).agrees for run in self.unheld[:2])
        return second and not first

    def _agrees_with_nothing_held(self) -> bool:
        """Does a further run agree in which nothing is held? Then the first run alone is another one."""
        run = self._make(frozenset())
        if run is None or not self._compare(self._made[0], run).agrees:
            return False
        entry = self._note(frozenset(), [run], Shown(agrees=True), more=2)
        entry.shows = _SETTLED
        return True

    def _suffices(self, held: Holds) -> _Entry | None:
        """Do runs agree in which ``held`` alone are held? ``None`` where no run is left to tell."""
        reference = self._made[0]
        one = self._make(held)
        if one is None:
            return None
        shown = self._compare(reference, one)
        changed = {circumstance for circumstance in reference.held - held if not circumstance.is_chance}
        if shown.agrees or not (changed or Circumstance.ADDRESSES in held):
            return self._note(held, [one], shown, more=2 if shown.agrees else 0)
        other = self._make(held)
        return None if other is None else self._note(held, [one, other], self._compare(one, other))

    def _explains_first(self, entry: _Entry) -> bool:
        """Is the place where runs part first no longer among those where they part?"""
        first = self._compare(*self.unheld[:2]).first
        now = entry.shown.first
        return not entry.no_proof and None not in (first, now) and first.key[1:] != now.key[1:]  # type: ignore[union-attr]

    def _conclude(self, cause: Holds, everything: Holds) -> None:
        """``cause`` suffices; it is the cause if runs differ without it, and not by chance alone."""
        entry = next(one for one in reversed(self._entries) if one.held == cause)
        reference = self._made[0]
        if not all(one.is_chance for one in cause) and entry.runs < 3:
            again = self._make(cause)
            if again is not None:
                entry.runs += 1
                entry.shown = self._compare(self._last(cause), again)
            if not entry.shown.agrees:
                return
        free = [run for run in (*self._made, *self.unheld) if not cause <= run.held]
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
        entry.is_cause = differs
        if not differs:
            entry.no_proof = "runs agree without it as well, as far as that was tried"

    def _last(self, held: Holds) -> Tried:
        """The run before the latest one in which ``held`` alone are held."""
        return [run for run in self._made if run.held == held][-2]

    def _hold_the_rest(self, everything: Holds, rest: Sequence[Circumstance]) -> None:
        """With all held that chance decides the runs part: hold what changes the computation as well."""
        entry = self._twice(everything.union(rest), is_all=True)
        if entry is not None and entry.proves:
            used = [one for one in rest if one not in self._made[-1].unused]
            self._each_alone(sorted(used, key=lambda one: one.held is None or not one.held.notes_use))

    def _each_alone(self, circumstances: Iterable[Circumstance]) -> None:
        """Hold one at a time, twice each, until runs agree."""
        for one in dict.fromkeys(circumstances):
            entry = self._twice(_with_required([one]))
            if entry is None:
                return
            if entry.proves:
                entry.is_cause = True
                return


def _with_required(circumstances: Iterable[Circumstance]) -> Holds:
    """Where objects lie hangs on the order of hashes, so that is held with it."""
    held = frozenset(circumstances)
    return held | {Circumstance.HASH_SEED} if Circumstance.ADDRESSES in held else held


def _told(entry: _Entry) -> Held:
    """An entry as a fact of the report, its circumstances in the order of their declaration."""
    names = [one for one in Circumstance if one in entry.held]
    told = [one for one in names if not (one is Circumstance.HASH_SEED and Circumstance.ADDRESSES in names)]
    is_few = len(told) <= 2
    return Held(
        circumstances=tuple(one.value for one in names),
        is_all=entry.is_all,
        agrees=entry.shown.agrees,
        runs=entry.runs,
        is_cause=entry.is_cause,
        clause=" and ".join(one.held_clause for one in told),
        shows=entry.shows or ("; ".join(one.shows for one in told) if is_few else ""),
        remedy="; ".join(one.remedy for one in told) if is_few else "",
        cannot="; ".join(one.held.cannot for one in told if one.held is not None) if is_few else "",
        no_proof=entry.no_proof,
        first=entry.shown.first,
    )


class Comparing:
    """Compares runs by what differs between those that part with nothing held."""

    def __init__(self, unheld: Sequence[Recording]) -> None:
        self.unheld = unheld
        self.parting = compare_recordings(unheld[0], unheld[1], may_resume=False)
        self._left_otherwise = {(end.kind, end.name) for end in self.parting.ends}

    def compare(self, one: Recording, other: Recording) -> Shown:
        """Where only what the runs leave differs, the two agree if they leave it alike."""
        found = compare_recordings(one, other, may_resume=False)
        left = {(end.kind, end.name) for end in found.ends} & self._left_otherwise
        return Shown(found.agrees and not (self.parting.agrees and left), found.first)

    def other_calls(self, recording: Recording) -> str:
        """That a run makes other calls than those with nothing held; empty where it does not."""
        makes_theirs = makes_calls_of(recording.values, [one.values for one in self.unheld])
        return "" if makes_theirs else "the script makes other calls then"


def suspects(roots: Sequence[Root], candidates: Sequence[Circumstance]) -> tuple[list[Circumstance], int]:
    """Those of ``candidates`` that the roots suggest, and how many of these by what a root was made from.

    They come first; then what the cause of the first root suggests.
    """
    words = [word for root in roots for word in _sources(root)]
    sure = dict.fromkeys(one for word in words for one in candidates if word in one.suggested_by)
    weak = dict.fromkeys(one for one in candidates if roots and roots[0].cause in one.suggested_by)
    return list(sure | weak), len(sure)


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

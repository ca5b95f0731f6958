"""Which circumstance explains why runs part: further runs in which some are held, a bounded number of them.

First all are held, twice. Where these two runs agree, a run in which one circumstance is held and all others are free
agrees with them only if it is that one which decides; so each further question costs one run. Addresses hang on all
that is held beside them, and threads and settings change what is computed: a run that differs in these is made twice,
and held against itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracer.divergence import Recording, compare_recordings
from tracer.divergence.model import Divergence, Root
from tracer.divergence.repeated import Held
from tracer.runner.repeated.circumstances.declared import Circumstance
from tracer.trace.values import Values

#: Further runs that are made at most.
MOST_RUNS = 6

Holds = frozenset[Circumstance]


@dataclass(frozen=True)
class Tried:
    """A run in which some circumstances were held."""

    held: Holds
    recording: Recording | None
    problem: str = ""
    """Why it is no proof, whatever it shows: it failed where the others did not, or took far longer."""


@dataclass
class _Entry:
    """What was found of one set of circumstances."""

    held: Holds
    runs: int
    agrees: bool
    is_all: bool = False
    is_cause: bool = False
    no_proof: str = ""
    first: Root | None = None


@dataclass
class Search:
    """Finds what explains why ``unheld`` runs part, by making further ones with ``run``."""

    unheld: Sequence[Recording]
    first: Root
    """Where they part first."""
    candidates: Sequence[Circumstance]
    """What can be held here, the most suspected first."""
    suspected: Sequence[Circumstance]
    """Those of them that the roots suggest, in order."""
    sure: int
    """So many of these are suggested by what a number or an order was made from, and not by the roots' causes alone."""
    run: Callable[[Holds], Tried | None]
    """Makes a run; ``None`` where a signal is to end everything."""
    most: int = MOST_RUNS
    asked: bool = False
    """Were the candidates named by the user? Then all of them are held at once."""
    entries: list[_Entry] = field(default_factory=list)
    _made: list[Tried] = field(default_factory=list)

    def find(self) -> tuple[Held, ...]:
        """Make the runs, and say what each set of circumstances showed."""
        kernels = any(not one.is_chance for one in self.suspected)
        together = [one for one in self.candidates if one.is_chance or self.asked or kernels]
        everything = self._with_required(together)
        entry = self._twice(everything, is_all=True)
        if entry is None:
            return self._told()
        if entry.no_proof:
            self._each_alone(self.suspected or together)
        elif entry.agrees:
            self._narrow(everything, together)
        elif rest := [one for one in self.candidates if one not in together]:
            self._hold_the_rest(everything, rest)
        return self._told()

    # --- the runs ---

    @property
    def _left(self) -> int:
        return self.most - len(self._made)

    def _make(self, held: Holds) -> Tried | None:
        if self._left <= 0:
            return None
        tried = self.run(held)
        if tried is None:
            self.most = len(self._made)  # a signal ends everything
            return None
        self._made.append(tried)
        return tried

    def _twice(self, held: Holds, *, is_all: bool = False) -> _Entry | None:
        """Two runs in which ``held`` are held, held against each other."""
        if self._left < 2:
            return None
        one = self._make(held)
        other = None if one is None or one.recording is None else self._make(held)
        if one is None or (other is None and one.recording is not None):
            return None
        tried = [run for run in (one, other) if run is not None]
        return self._note(held, tried, self._compared(one, other), is_all=is_all)

    def _note(
        self, held: Holds, tried: Sequence[Tried], found: Divergence | None, *, is_all: bool = False, more: int = 0
    ) -> _Entry:
        no_proof = next((why for run in tried if (why := run.problem or self._other_calls(run))), "")
        entry = _Entry(
            held,
            runs=len(tried) + more,
            agrees=found is not None and found.agrees,
            is_all=is_all,
            no_proof=no_proof,
            first=None if found is None else found.first,
        )
        self.entries.append(entry)
        return entry

    @staticmethod
    def _compared(one: Tried | None, other: Tried | None) -> Divergence | None:
        if one is None or other is None or one.recording is None or other.recording is None:
            return None
        return compare_recordings(one.recording, other.recording, may_resume=False)

    def _other_calls(self, tried: Tried) -> str:
        """Does the run make other calls than both runs did in which nothing was held?"""
        if tried.recording is None or makes_calls_of(tried.recording.values, [one.values for one in self.unheld]):
            return ""
        return "the script makes other calls then"

    # --- what to try ---

    def _narrow(self, everything: Holds, together: Sequence[Circumstance]) -> None:
        """All held agree: find those that suffice."""
        if len(everything) == 1:
            self._conclude(everything, everything)
            return
        kept: Holds = frozenset()
        left: list[Circumstance] = [one for one in together if one is not Circumstance.ADDRESSES]
        for one in [one for one in self.suspected if one in left][: max(1, min(2, self.sure))]:
            left.remove(one)
            found = self._suffices(kept | {one})
            if found is None:
                return
            if found.agrees and not found.no_proof:
                self._conclude(found.held, everything)
                return
            if found.first is None or found.first.key[1:] != self.first.key[1:]:
                kept |= {one}
        if Circumstance.ADDRESSES in together:
            left.append(Circumstance.ADDRESSES)
        proven: Holds | None = None
        while left and (proven is None or len(left) > 1):
            half = left[: (len(left) + 1) // 2] if len(left) > 1 else left
            found = self._suffices(self._with_required(kept.union(half)))
            if found is None:
                return
            if found.agrees and not found.no_proof:
                left, proven = list(half), found.held
            elif len(left) == 1:
                return
            else:
                left = left[len(half) :]
        if proven is not None:
            self._conclude(proven, everything)

    def _suffices(self, held: Holds) -> _Entry | None:
        """Do runs agree in which ``held`` alone are held? ``None`` where no run is left to tell."""
        reference = self._made[0]
        one = self._make(held)
        if one is None:
            return None
        found = self._compared(reference, one)
        if found is not None and found.agrees:
            return self._note(held, [one], found, more=2)
        fixed = {circumstance for circumstance in reference.held if not circumstance.is_chance}
        if Circumstance.ADDRESSES in held or not fixed <= held:
            other = self._make(held)
            if other is None:
                return None
            return self._note(held, [one, other], self._compared(one, other))
        return self._note(held, [one], found)

    def _conclude(self, cause: Holds, everything: Holds) -> None:
        """``cause`` suffices; it is the cause if runs differ without it, and not by chance alone."""
        entry = next(one for one in reversed(self.entries) if one.held == cause)
        reference = self._made[0]
        differs = [run for run in self._made if not cause <= run.held and not self._agree(reference, run)] or not any(
            self._agree(reference, Tried(frozenset(), one)) for one in self.unheld
        )
        without = self._without(cause, everything)
        while not differs and self._left > 0:
            run = self._make(without)
            if run is None:
                break
            found = self._compared(reference, run)
            self._note(without, [run], found)
            differs = found is None or not found.agrees
        entry.is_cause = bool(differs)
        if not differs:
            entry.no_proof = "runs agree as well without it, as far as that was tried"

    @staticmethod
    def _without(cause: Holds, everything: Holds) -> Holds:
        """All but ``cause``, and addresses, which are laid out otherwise then."""
        return everything - cause - {Circumstance.ADDRESSES}

    def _hold_the_rest(self, everything: Holds, rest: Sequence[Circumstance]) -> None:
        """All that chance decides was held, and runs part: hold what changes the computation as well."""
        entry = self._twice(everything.union(rest), is_all=True)
        if entry is None or not entry.agrees or entry.no_proof:
            return
        self._each_alone([*(one for one in self.suspected if one in rest), *rest])

    def _each_alone(self, circumstances: Iterable[Circumstance]) -> None:
        """Hold one at a time, twice each, until runs agree."""
        for one in dict.fromkeys(circumstances):
            entry = self._twice(self._with_required([one]))
            if entry is None:
                return
            if entry.agrees and not entry.no_proof:
                entry.is_cause = True
                return

    def _with_required(self, circumstances: Iterable[Circumstance]) -> Holds:
        """Where objects lie hangs on the order of hashes."""
        held = frozenset(circumstances)
        return held | {Circumstance.HASH_SEED} if Circumstance.ADDRESSES in held else held

    @staticmethod
    def _agree(one: Tried, other: Tried) -> bool:
        found = Search._compared(one, other)
        return found is not None and found.agrees

    def _told(self) -> tuple[Held, ...]:
        return tuple(_said(entry) for entry in self.entries)


def _said(entry: _Entry) -> Held:
    """An entry as a fact of the report, in the order of declaration."""
    names = [one for one in Circumstance if one in entry.held]
    told = [one for one in names if not (one is Circumstance.HASH_SEED and Circumstance.ADDRESSES in names)] or names
    return Held(
        circumstances=tuple(one.value for one in names),
        is_all=entry.is_all,
        agrees=entry.agrees,
        runs=entry.runs,
        is_cause=entry.is_cause,
        clause=" and ".join(one.held_clause for one in told),
        shows="; ".join(one.shows for one in told) if len(told) <= 2 else "",
        remedy="; ".join(one.remedy for one in told) if len(told) <= 2 else "",
        cannot="; ".join(f"{one}: {one.held.cannot}" for one in told if one.held is not None and one.held.cannot)
        if len(told) <= 2
        else "",
        no_proof=entry.no_proof,
        first=entry.first,
    )


def makes_calls_of(held: Values, unheld: Collection[Values]) -> bool:
    """Are these the calls of a run in which nothing was held, or, where those differ among them, calls of theirs?"""
    sequences = [_sequence(values) for values in unheld]
    ours = _sequence(held)
    if any(_same(ours, other) for other in sequences):
        return True
    if all(_same(sequences[0], other) for other in sequences[1:]):
        return False
    kinds = [set(other) for other in sequences]
    return set.intersection(*kinds) <= set(ours) <= set.union(*kinds)


def _sequence(values: Values) -> list[tuple[str, ...]]:
    keys = [(group.op, group.phase.value, group.module, group.location, group.function) for group in values.groups]
    return [keys[number] for number in np.asarray(values.group).tolist()]


def _same(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> bool:
    return one == other


def suspects(roots: Sequence[Root], candidates: Sequence[Circumstance]) -> tuple[list[Circumstance], int]:
    """Those of ``candidates`` that the roots suggest, and how many of these by what a root was made from.

    They come first; then what the cause of the first root suggests.
    """
    words = [word for root in roots for word in _sources(root)]
    sure = dict.fromkeys(one for word in words for one in candidates if word in one.suggested_by)
    weak = dict.fromkeys(one for one in candidates if roots[0].cause in one.suggested_by)
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

"""Several runs of one program, each held against the first: as it stands, and under other circumstances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tracer.divergence.model import Divergence, EndState, Outside, Root
from tracer.divergence.recordings import Recording
from tracer.trace.records import FactValue

#: The arm in which nothing is changed: what differs here is the program itself. All others bear the name of the
#: circumstance that is varied in them.
UNVARIED = "unvaried"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    name: str
    """``run 1``, ``run 2``, or the arm's: ``memory``."""
    file: str
    """Its recording, below the folder of all of them; empty where none is kept."""
    arm: str = UNVARIED
    held: tuple[str, ...] = ()
    """The circumstances that were held in it, to find the cause."""
    code: int = 0
    """Its exit code; -15 and the like for a signal."""
    calls: int = 0
    stopped: bool = False
    """Was it ended early: it had parted already, as was asked, or a signal ended all?"""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm's runs showed."""

    agrees: bool
    changed: str
    """What was changed, in a few words."""
    calls_compared: int
    runs: int
    """Runs that were held against the first one."""
    first: Root | None = None
    alone: int = 0
    """Roots that only this arm showed: what is sensitive to it."""
    note: str = ""
    """What the reader must know: that it changed nothing here, or what it does not reach."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Circumstances that were held in further runs, and whether runs agree then."""

    circumstances: tuple[str, ...]
    """Their names."""
    is_all: bool = False
    """Are they all that were to be held?"""
    agrees: bool
    """Do runs agree in which they were held?"""
    runs: int
    """Runs that were compared in which they were held."""
    is_cause: bool = False
    """Do runs agree for them, and no longer without them?"""
    clause: str = ""
    """``the hash seed is held``."""
    shows: str = ""
    """What it shows if runs agree: ``the order of a set or a hash reaches the step``."""
    remedy: str = ""
    cannot: str = ""
    """What it does not reach."""
    no_proof: str = ""
    """Why agreement or disagreement says nothing: the runs changed otherwise; empty where it does say something."""
    first: Root | None = None
    """Where runs part in which they were held."""


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """What running a program several times showed."""

    name: str
    """The script, the module or the function that was run."""
    runs: tuple[Run, ...]
    divergence: Divergence
    """The comparison that parts first; of two runs that agree where none parts."""
    second: str = "run 2"
    """The run that it holds against run 1."""
    roots: tuple[Root, ...] = ()
    """Of all runs, in order of execution, each with the arms in which it was seen."""
    arms: dict[str, Outcome] = {}
    held: tuple[Held, ...] = ()
    """What was held once the runs had parted, in the order in which it was tried."""
    not_held: str = ""
    """Why nothing was held although the runs part; empty where something was, or nothing had to be."""
    settings: str = "recorded"
    """What the runs' settings were: as the program has them, the plan's, or another name of a target's."""
    sets: dict[str, FactValue] = {}
    """The settings that were made before the program's first line."""
    outside: tuple[Outside, ...] = ()
    """What the runs took in from outside as the program stands, those that differ first."""
    as_it_stands: Repeated | None = None
    """The same without those settings, where both were asked for."""
    not_restored: tuple[str, ...] = ()
    """What a function's runs may have taken over from one another."""
    source: dict[str, str] = {}
    """By place: the lines of the user's own files around a root's; in no JSON."""
    ended_by: str = ""
    """The signal that came before all runs were made (``ended by SIGTERM``); empty where none did."""
    not_followed: int = 0
    """Processes that a run started: whether what they computed agrees is not known. A loader's workers are none of
    them, since what they give is compared as the input of the calls that read it."""

    @property
    def agrees(self) -> bool:
        """Do all runs agree in every compared call? That is no proof."""
        return all(outcome.agrees for outcome in self.arms.values())

    @property
    def ends(self) -> tuple[EndState, ...]:
        """What runs left in other bytes, where all calls agree: then no root explains it."""
        return () if self.first is not None else self.divergence.ends

    @property
    def first(self) -> Root | None:
        """Where the runs part first: as the program stands, or, where they agree there, in the first arm that parts."""
        return next((outcome.first for outcome in self.arms.values() if outcome.first is not None), None)

    @property
    def numbered(self) -> tuple[Root, ...]:
        """All roots as a report numbers them: those of the comparison that is drawn, then those that others showed."""
        roots = {_place(root): root for root in self.roots}
        drawn = [roots.get(_place(root), root) for root in self.divergence.roots]
        keys = {_place(root) for root in drawn}
        return (*drawn, *(root for root in self.roots if _place(root) not in keys))

    @property
    def calls_compared(self) -> int:
        """Calls that every run as it stands was held against the first one in."""
        outcome = self.arms.get(UNVARIED)
        return outcome.calls_compared if outcome is not None else self.divergence.calls_compared

    @property
    def cause(self) -> Held | None:
        """The circumstances that explain why the runs part, as far as that was found by holding them."""
        return next((held for held in self.held if held.is_cause), None)

    @property
    def partial(self) -> str:
        """Why a recording is not whole, or a run lacks; empty where all are, or were stopped because that was asked."""
        if self.ended_by:
            return self.ended_by
        stopped = any(run.stopped for run in self.runs)
        return "" if stopped else next((reason for reason in self.divergence.partial if reason), "")

    @property
    def failed(self) -> tuple[Run, ...]:
        """Runs that ended with an error of their own."""
        return tuple(run for run in self.runs if run.code and not run.stopped)


def not_followed(recordings: Iterable[Recording]) -> int:
    """How many processes were started in that of ``recordings`` in which most were."""
    return max((recording.trace.not_followed for recording in recordings if recording.trace is not None), default=0)


def _place(root: Root) -> tuple[str, ...]:
    """The same for the same root in another pair of runs, whatever cause that shows."""
    return root.key[1:]


def with_arms(compared: Mapping[str, Sequence[Divergence]]) -> tuple[Root, ...]:
    """All roots of all comparisons, each once and with the arms that showed it, in order of execution.

    A root that the unvaried runs show keeps their words: what was changed in an arm is not its cause.
    """
    arms: dict[tuple[str, ...], dict[str, None]] = {}
    first_shown: dict[tuple[str, ...], Root] = {}
    for arm, divergences in compared.items():
        for divergence in divergences:
            for root in divergence.roots:
                first_shown.setdefault(_place(root), root)
                arms.setdefault(_place(root), {})[arm] = None
    roots = (msgspec.structs.replace(root, arms=tuple(arms[place])) for place, root in first_shown.items())
    return tuple(sorted(roots, key=lambda root: (UNVARIED not in root.arms, root.step, root.call)))


def outcomes(
    compared: Mapping[str, Sequence[Divergence]],
    roots: Iterable[Root],
    changed: Mapping[str, str],
    notes: Mapping[str, str],
) -> dict[str, Outcome]:
    """What each arm showed; ``changed`` and ``notes`` are words for it."""
    by_place = {_place(root): root for root in roots}
    return {
        arm: Outcome(
            agrees=all(divergence.agrees and not (divergence.ends and arm == UNVARIED) for divergence in divergences),
            changed=changed[arm],
            calls_compared=min((divergence.calls_compared for divergence in divergences), default=0),
            runs=len(divergences),
            first=next((by_place[_place(root)] for root in _firsts(divergences)), None),
            alone=sum(root.arms == (arm,) for root in by_place.values()),
            note=notes.get(arm, ""),
        )
        for arm, divergences in compared.items()
    }


def _firsts(divergences: Iterable[Divergence]) -> Iterator[Root]:
    """The first root of each comparison, the earliest first."""
    diverging = sorted(
        (divergence for divergence in divergences if divergence.roots), key=lambda divergence: divergence.begins
    )
    return (divergence.roots[0] for divergence in diverging)

"""What comparing two recordings says: the roots, each with its cause, and what merely follows."""

from __future__ import annotations

import sys
from typing import ClassVar

import msgspec

from tracer.divergence.causes import RootCause, Shows
from tracer.names import NumberSource, OutsideKind, Phase, Verdict, Word
from tracer.trace import records
from tracer.trace.values import ValueKind


class State(Word):
    """What comparing says of some calls."""

    AGREES = "agrees"
    ROOT = "root"
    FOLLOWS = "follows"
    ONLY_FIRST = "only-first"
    """Only the first recording has them."""
    ONLY_SECOND = "only-second"
    NOT_DIGESTED = "not-digested"
    """Whether they agree is not known."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that a reason speaks of."""

    op: str
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    called_from: str = ""
    step: int = 0
    call: int = -1
    """Its index in the recording that has it; -1 where it is not known."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, variable or version that is not the same in both recordings."""

    name: str
    first: str
    second: str


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a generator's seed came from."""

    location: str = ""
    source: NumberSource | None = None
    """The number of the machine that it is; ``None`` for another."""
    is_machines: bool = False
    """Was the state left to the machine?"""
    first: str = ""
    """The number that it was seeded with in the first run; empty where that is not known."""
    second: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A number that is another one in every process, which the program takes."""

    what: str
    location: str
    source: NumberSource | None = None
    is_unseeded: bool = False
    """Is it drawn from a generator that nobody seeded?"""


class Outside(records.Placed, frozen=True, kw_only=True):
    """Something that the program took in from outside, in two runs."""

    kind: OutsideKind
    name: str
    _: ClassVar[records.Place]
    differs: bool | None
    """Is it another one in the second run, or taken in by one run alone? ``None`` where that cannot be told."""
    first: str
    """What it was in the first run, in words and digests."""
    second: str
    only_order: bool = False
    """Is it a directory with the same entries in another order?"""
    by_first_run: bool = False
    """Is it a file that the first run wrote?"""
    by_import: bool = False
    calls: int = 0
    """Calls that were recorded before it, in the run that took it in first."""


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the recordings show at a root, beside what the root itself says."""

    shows: Shows
    settings: tuple[Changed, ...] = ()
    """Those that differ."""
    is_first: bool = False
    """Was it read before the first step was over?"""
    position: int = -1
    """Of a batch: which one; -1 where that is not known."""
    elsewhere: int | None = None
    """The position at which the first run has the second's batch."""
    is_resumed: bool = False
    """Is it where a resumed run goes on?"""
    seed: Seed | None = None
    next_draw: Place | None = None
    """The draw at which the generator's other state shows."""
    is_alone: bool = False
    """Does only one run draw here?"""
    goes_on: tuple[Place | None, Place | None] = (None, None)
    """The next call of each run; ``None`` where it ends."""
    only: tuple[int, int] = (0, 0)
    """Calls that only the one or the other makes here."""
    taken: tuple[Taken, ...] = ()
    """Numbers of the machine that may be where it comes from."""
    outside: tuple[Outside, ...] = ()
    """What differs of that which came from outside before it, that which explains the most first."""
    adding: tuple[str, ...] = ()
    """Kernels of the region that add atomically."""
    threads: tuple[str, ...] = ()
    """Where the program started threads, which may have written what the call reads."""
    suspects: tuple[Place, ...] = ()
    """Calls in the region that the tables hold for a risk, the worst first."""


class Root(records.Placed, frozen=True, kw_only=True):
    """A call at which two recordings part: nothing that it reads from other calls explains it."""

    cause: RootCause
    step: int
    """The optimizer step, as the recordings number them."""
    call: int
    """Index of the call in the first recording, from 0; in the second where only that has it."""
    op: str
    phase: Phase
    module: str = ""
    _: ClassVar[records.Place]
    region: str = ""
    """The compiled region that the call is, where it is one."""
    rule: str = ""
    """The rule of the tables at this call; empty where none speaks of it, or none was asked."""
    verdict: Verdict | None = None
    """What the tables say of the call as it stood; ``None`` where they were not asked."""
    contradicts: bool = False
    """Did a kernel differ that the tables call deterministic? Then the table is wrong here."""
    reason: Reason | None = None
    """What shows it."""
    kind: ValueKind | None = None
    """What it is that came in different, where something did."""
    name: str = ""
    """Its name: a parameter's, a loader's, a generator's; a setting's for ``setting``."""
    first: str = ""
    """What it was in the first recording, in words, where that is known."""
    second: str = ""
    earlier: Place | None = None
    """The earlier call that explains it: the draw after which a generator ran ahead, the call that gave memory."""
    follows: int = 0
    """Calls that differ only because of it."""
    same_cause: int = 0
    """Further calls at which the same cause shows again; they are not told again."""
    other_call: int | None = None
    """Index of the call in the second recording; ``None`` where only one has it."""
    only_second: bool = False
    """Is it a call that only the second recording has?"""
    arms: tuple[str, ...] = ()
    """The arms of a repeated run in which it differed."""

    @property
    def key(self) -> tuple[str, ...]:
        """The same for the same root in another pair of runs: lines and counts may be others."""
        file = self.location.rpartition(":")[0] or self.location
        return (self.cause.value, self.op, self.phase.value, self.module, file, self.function)


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the two sequences of calls part, and how each goes on."""

    step: int
    after: Place | None
    """The last call that both have; ``None`` at the very beginning."""
    first: tuple[Place, ...]
    """The next calls of the first recording, a few."""
    second: tuple[Place, ...]
    only_first: int
    """Calls that only the first has, until both go on together."""
    only_second: int
    is_root: bool
    """Do the runs part here? If not, it follows from what had parted before."""


class NotRestored(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a checkpoint that the resumed run did not have back."""

    kind: ValueKind
    name: str = ""
    """The first of its kind."""
    count: int = 0
    """How many of its kind are affected, or were there."""
    has_none: bool = False
    """Does the resumed run have nothing of the kind?"""
    is_missing: bool = False
    """Does it lack this one?"""
    first: str = ""
    """What it was, where that is known."""
    second: str = ""
    root: Root | None = None
    """The call that showed it, where no state did."""


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """The second recording was held against a later part of the first."""

    first_step: int
    """The first recording's step that was held against ``second_step``."""
    second_step: int
    by_itself: bool
    """Was the step found by the parameters, and not given?"""
    not_restored: tuple[NotRestored, ...] = ()


class Span(msgspec.Struct, frozen=True, gc=False):
    """Calls in a row that are told alike in a picture."""

    state: State
    step: int
    phase: Phase
    module: str
    call: int
    """The first of them, in the first recording; in the second for calls that only that has."""
    count: int


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that should agree after a step, and do not."""

    step: int
    """The first step at whose update they differ already: they parted in the step before."""
    name: str
    """The first parameter that does."""
    parameters: int
    """Parameters that differ then."""
    ranks: tuple[tuple[int, ...], ...]
    """Ranks by what they have, the most first."""
    gradients_differ: bool | None = None
    """Did the gradients of that parameter differ in the step before? ``None``: not recorded."""


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks of one job, held against each other."""

    ranks: tuple[int, ...]
    steps: int
    """Steps of which parameters were compared; 0: none, and nothing is known."""
    are_replicas: bool
    """Did all parameters agree to begin with? If not, they are shards, or not meant to agree."""
    drift: Drift | None = None


class EndState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that two runs left, and left in other bytes."""

    kind: ValueKind
    """A parameter, a buffer, an optimizer's state, a file, or output (a printed line)."""
    name: str
    only_one: bool = False
    """Did only one run leave it?"""
    only_second: bool = False
    """Is it the second run that left it, or printed this line?"""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of one step in two runs."""

    step: int
    first: float | None
    """``None`` where that run has none in this step."""
    second: float | None
    differs: bool
    """Are they other numbers, bit for bit? A NaN is the same as itself."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Two recordings with values, compared."""

    agrees: bool
    """Was no root found, and does training leave the same? See ``partial`` and ``not_digested`` for what is open."""
    calls_compared: int
    calls: tuple[int, int]
    """Calls that each recording has."""
    ends: tuple[EndState, ...] = ()
    """What the runs left in other bytes; where calls differ, it follows from them."""
    ends_compared: int = 0
    """States, files and printed lines that both left."""
    roots: tuple[Root, ...] = ()
    """In order of execution; a cause that shows often stands here once."""
    follows: int = 0
    """Calls that differ only because of others."""
    structure: tuple[Parting, ...] = ()
    """Where the sequences part, the first ones."""
    only: tuple[int, int] = (0, 0)
    """Calls that only the one or the other has."""
    partial: tuple[str, str] = ("", "")
    """Why a recording is not whole; empty for a whole one."""
    not_digested: int = 0
    """Compared calls of which it is not known whether they agree."""
    settings: tuple[Changed, ...] = ()
    outside: tuple[Outside, ...] = ()
    """What both runs took in from outside, those that differ first."""
    resumed: Resumed | None = None
    replicas: Replicas | None = None
    """For two ranks of one job, which read other data by right: only their parameters are held against each other, and
    ``roots`` tells where the optimizer read or wrote otherwise first."""
    losses: tuple[Loss, ...] = ()
    """What ``backward`` was called on, step for step; empty for recordings of other steps or ranks."""
    strip: tuple[Span, ...] = ()
    """All calls in order, for a picture."""
    names: tuple[str, str] = ("", "")

    @property
    def first(self) -> Root | None:
        """Where the runs part first."""
        return self.roots[0] if self.roots else None

    @property
    def differs(self) -> bool:
        """Does a call differ, or something that the runs left?"""
        return not self.agrees or bool(self.ends)

    @property
    def begins(self) -> tuple[int, int]:
        """Step and call of the first root, to order comparisons by; those without a root come last."""
        return (self.roots[0].step, self.roots[0].call) if self.roots else (sys.maxsize, 0)

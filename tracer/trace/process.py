"""What a trace holds beside the calls: settings as they were made, generators, memory, data loading.

Like calls, all of it is grouped as it happens: its size follows the lines of the program, not the length of a run.
"""

from __future__ import annotations

import msgspec

from tracer.names import EventKind, GeneratorKind, NumberSource, NumberUse, Overlap, Phase, SeedOrigin


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that the program did at one line, once or often."""

    kind: EventKind
    name: str
    """What it was about: a variable's name, a setting's dotted name (``torch.use_deterministic_algorithms``), a
    ``Subsystem``, or a generator (``cpu``, ``cuda``, ``cuda:0``, ``passed``, ``python``, ``numpy``; ``numpy-objects``
    for a ``Generator`` of NumPy that was made without a seed)."""
    before: str = ""
    """A setting's value before, as text; a variable's, empty where it was not set."""
    value: str = ""
    """The value after the first time, as text; for a seed, how it was made (``SeedOrigin``)."""
    values_differ: bool = False
    """Was it another value at a later time?"""
    location: str = ""
    """``path:line`` of the innermost frame outside torch, as for ``CallGroup``."""
    function: str = ""
    called_from: str = ""
    phase: Phase = Phase.OTHER
    """The phase in which it happened first."""
    while_recording: bool = False
    """Did it happen while ops were recorded?"""
    first: int = 0
    """Position of its first time among all events and first calls of the recording."""
    last: int = 0
    """Position of its last time."""
    parts_phases: bool = False
    """Were forward calls recorded before it and backward calls after it, within one training step?"""
    after_calls: bool = False
    """Were forward calls recorded before it, at one of its times? If not, there was nothing to part."""
    is_followed: bool = True
    """Were calls recorded after the first of those times too? What a program puts back at its end parts nothing."""
    after_draws: bool = False
    """A seed: had the generator drawn while recording before it was seeded again, and did it draw after?"""
    count: int = 1


class Generator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the process's own generators over the recorded region."""

    name: str
    """``cpu``, ``cuda:0``, ``python`` (the module ``random``), ``numpy`` (``numpy.random``'s global one)."""
    origin: SeedOrigin
    """Where the state came from that it drew from first; at the region's end where it drew nothing."""
    seeded_at: str = ""
    """``path:line`` of the call that seeded it last before that, where it was seen."""
    before: str = ""
    """Digest of its state when recording began: sixteen hexadecimal digits."""
    after: str = ""
    """Digest of its state when recording ended."""
    drew: bool | None = None
    """Did the region draw from it, beyond what the program's seeding explains? ``None``: could not be told."""

    @property
    def kind(self) -> GeneratorKind:
        """Whose it is."""
        return GeneratorKind.spelt(self.name)


class Draw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Draws from one generator by one op or function at one place."""

    generator: str
    """``cpu``, ``cuda:0``; ``passed (cpu)`` for a ``torch.Generator`` that the program made; ``python``, ``numpy``."""
    op: str
    """The overload, or the function (``random.shuffle``, ``numpy.random.rand``)."""
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    function: str = ""
    called_from: str = ""
    count: int = 1
    """Calls that drew."""
    origin: SeedOrigin = SeedOrigin.UNSEEN
    seeded_at: str = ""
    """``path:line`` of the call that seeded the generator, where it was seen."""

    @property
    def kind(self) -> GeneratorKind:
        """Whose the generator is."""
        return GeneratorKind.spelt(self.generator)


class MachineNumber(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number at one line that is another one in every process."""

    source: NumberSource
    use: NumberUse
    what: str = ""
    """What was called: ``random.Random``, ``numpy.random``, ``os.urandom``, ``uuid.uuid4``, ``secrets``; of a seed, the
    generator that it seeded (``cpu``, ``torch``, ``python``, ``numpy``)."""
    location: str = ""
    """``path:line`` of the innermost frame outside torch and the standard library."""
    function: str = ""
    called_from: str = ""
    phase: Phase = Phase.OTHER
    by_library: bool = False
    """Was it an installed package that asked for it?"""
    count: int = 1


class Allocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that allocated memory without writing it, and that torch would fill in deterministic mode."""

    op: str
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    function: str = ""
    called_from: str = ""
    count: int = 1
    bytes: int = 0
    """Bytes of all those calls together: what the fill would write."""
    unfollowed: int = 0
    """Calls whose memory could not be followed to its first read: handed to numpy, to another library, to an op that
    writes at places that only its data know."""


class UnwrittenRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that read memory before it was wholly written."""

    op: str
    """The overload that read."""
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    function: str = ""
    called_from: str = ""
    count: int = 1
    allocated_by: str = ""
    """The overload that gave the memory."""
    allocated_at: str = ""
    """``path:line`` of that call."""
    allocated_from: str = ""
    """The user's own line that led there, where that is another."""


class OverlapWrite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that wrote to overlapping memory."""

    op: str
    kind: Overlap
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    function: str = ""
    called_from: str = ""
    count: int = 1
    device: str = ""
    """The written tensor's device type, in the vocabulary's words."""


class Loader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ``DataLoader`` that was iterated."""

    location: str = ""
    """``path:line`` of its construction; of its first iteration where the construction was not seen."""
    function: str = ""
    called_from: str = ""
    iterations: int = 1
    """How often an iterator was made."""
    workers: int = 0
    """Worker processes; 0: the data is loaded in the training process."""
    has_worker_init: bool = False
    shuffles: bool = False
    """Does its sampler draw the order at random?"""
    sampler: str = ""
    """Class of the sampler, or of the batch sampler where that is not torch's own."""
    has_generator: bool = False
    """Was a ``generator`` given?"""
    origin: SeedOrigin = SeedOrigin.UNSEEN
    """Where the state came from that its order and its workers' seeds are drawn from."""
    seeded_at: str = ""
    workers_origin: SeedOrigin | None = None
    """The same for its workers' seeds alone, where its order is drawn from another generator."""
    workers_seeded_at: str = ""
    workers_have_generator: bool = False
    """Was a ``generator`` given for that other one?"""
    in_order: bool = True
    persistent_workers: bool = False
    start_method: str = ""
    """How its workers start: ``fork``, ``spawn``, ``forkserver``; empty without workers."""
    epoch_set: bool | None = None
    """For a ``DistributedSampler``: was ``set_epoch`` called? ``None`` for other samplers, or where unseen."""
    worker_draws: tuple[str, ...] = ()
    """Global generators that its workers were seen to draw from: ``python``, ``numpy``, ``torch``."""
    workers_seen: bool = True
    """Could its workers be watched? Only forked ones can."""

"""What a trace is made of: frozen structs, each field saying what it holds.

A trace is something people attach to a public ticket: it names ops, lines of code and settings, and no host, no user,
no absolute path, no value of any tensor. All of it is grouped as it happens: its size follows the lines of the program,
not the length of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Union

import msgspec

from tracer.names import (
    BlindSpotKind,
    DataShown,
    DeterministicMode,
    Direction,
    EventKind,
    GeneratorKind,
    HostCode,
    KernelLanguage,
    NumberSource,
    NumberUse,
    Overlap,
    Phase,
    RegionGap,
    RegionInside,
    RegionKind,
    RegionOrigin,
    SeedOrigin,
    TrialArm,
    Untried,
)
from tracer.trace.arguments import Argument

#: The schema that this release writes, and the newest that it reads. 2: settings, events, generators, memory, loaders.
#: 3: regions; a reader of 2 would take compiled calls for eager ones.
SCHEMA = 3

FactValue = Union[bool, int, str]  # noqa: UP007 (msgspec reads it on Python 3.10)
"""What a recorded fact can be; the vocabulary (``tracer.tables.vocabulary``) lists each fact's values."""


class Place(NamedTuple):
    """Where something happened, in the user's words."""

    location: str = ""
    """``path:line`` of the innermost frame outside torch, relative to the working directory, else to its
    ``site-packages``. A backward call bears its forward op's. Empty when it is not known."""
    function: str = ""
    """Qualified name of the function at ``location``."""
    called_from: str = ""
    """``path:line`` of the user's own frame (outside ``site-packages``) that led to ``location``, where that is
    another; empty otherwise or where it was not taken."""


_PLACE = re.compile(r"(.+):([0-9]{1,9})", re.DOTALL)


def split_place(location: str) -> tuple[str, int | None]:
    """Path and line of ``path:line``; all of it and ``None`` where it ends in no line's number."""
    found = _PLACE.fullmatch(location)
    return (found[1], int(found[2])) if found else (location, None)


class _PlacedMeta(msgspec.StructMeta):
    """Gives a record the fields of ``Place`` where it says ``_: ClassVar[Place]``.

    A base's fields would come first, and files would have them in another order.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        fields: dict[str, Any] = {}
        for field, kind in namespace.get("__annotations__", {}).items():
            if field == "_":
                fields |= dict.fromkeys(Place._fields, "str")
                namespace |= dict.fromkeys(Place._fields, "")
            else:
                fields[field] = kind
        namespace["__annotations__"] = fields
        return super().__new__(mcls, name, bases, namespace, **config)


class Placed(msgspec.Struct, frozen=True, kw_only=True, metaclass=_PlacedMeta):
    """A record of something that happened at a place: it has the fields of ``Place``, spelt as a file spells them."""

    if TYPE_CHECKING:
        location: str = ""
        function: str = ""
        called_from: str = ""

    @property
    def place(self) -> Place:
        """Where it happened."""
        return Place(self.location, self.function, self.called_from)


class ArmTrials(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Trials under one circumstance."""

    trials: int
    varied: int
    """Those whose result was another one than the call's own."""


class Tried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What trials showed of a group: calls that were made again on the spot, from the same inputs and generators."""

    calls: int = 0
    """Calls that were made again."""
    trials: int = 0
    """How often, all together; trials on another number of threads are no part of it."""
    varied: int = 0
    """Trials whose result was another one, to the bit, than the call's own."""
    varied_calls: int = 0
    """Calls of which a trial varied."""
    distinct: int = 0
    """Most different results of one call, its own among them; 0 where none was tried."""
    ulp: int = 0
    """Largest difference of a floating-point number from the call's own, in units of the last place; 0 where none
    varied, or where what varied are no such numbers."""
    relative: float = 0.0
    """Largest difference from the call's own, as a part of the larger of the two; 1 where only one is a number."""
    first: int = 0
    """Which of the group's calls, counted from 1, was the first that varied; 0 where none did."""
    arms: dict[TrialArm, ArmTrials] = {}
    """Trials by what was changed meanwhile."""
    untried: dict[Untried, int] = {}
    """Calls that were not made again, by the reason."""
    together: int = 0
    """So many groups of calls that may vary were made again as one, in a compiled region, so that nobody knows which of
    several varied. 0: each call was made again by itself, or nothing in the region is known to vary."""

    @property
    def has_varied(self) -> bool:
        """Did these calls themselves vary, as far as anything is known to?"""
        return self.varied > 0 and self.together < 2

    @property
    def is_rare(self) -> bool:
        """Did it vary in under a tenth of the trials?"""
        return 0 < self.varied * 10 < self.trials


#: Facts of a call that draws: from which generator (``cpu``, ``cuda:0``, ``passed (cpu)``), where its state came from,
#: and the line that seeded it.
GENERATOR, ORIGIN, SEEDED_AT = "rng.generator", "rng.origin", "rng.seeded_at"


def kind_drawn_from(facts: Mapping[str, FactValue]) -> GeneratorKind | None:
    """The kind of generator that a call with these ``facts`` drew from; ``None`` for one that drew from none."""
    generator = facts.get(GENERATOR)
    return None if generator is None else GeneratorKind.spelt(generator)


#: The device of tensors that have a shape and no data.
META = "meta"
#: Devices of calls that compute nothing: ``none`` for a call without a tensor.
NO_DEVICE = (META, "none")


class CallGroup(Placed, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Calls that agree in everything but their count."""

    op: str
    """The overload as torch prints it: ``aten.add.Tensor``, ``torchvision.nms.default``; a higher-order op
    as ``higher_order.cond``."""
    phase: Phase
    """Where in the step: forward, backward, recompute (activation checkpointing), optimizer or other."""
    module: str = ""
    """Module path as ``named_modules()`` spells it, led by the root's class name when no model was given;
    empty outside modules. A backward call bears its forward op's."""
    _: ClassVar[Place]
    count: int = 1
    """Number of calls."""
    node: str = ""
    """Name of the autograd node that made the call (``IndexBackward0``), for backward calls; a gradient
    accumulation bears the parameter's name behind a colon (``AccumulateGrad: fc.weight``)."""
    forward_unknown: bool = False
    """Is it a backward call of which the forward's line is not known? ``location`` is then the line that asked for the
    gradient."""
    host: HostCode | None = None
    """Why the call is known to run on the host, whatever device the training runs on; ``None`` where it is not."""
    facts: dict[str, FactValue] = {}
    """What conditions may read of the call: ``device``, ``dtype``, ``layout``, ``ndim`` of what it works on,
    ``arg.*``, ``given.*``, ``shape.*`` for the ops whose rules ask, ``subclass`` for a tensor subclass."""
    given: dict[str, Argument] = {}
    """What the first of the calls was called with, by the names of the op's schema; empty where nobody looked."""
    inputs: str = ""
    """The name under which the data of the first call lie in the file of inputs beside the trace; empty where they were
    not kept (``tracer run --keep-inputs``)."""
    region: str | None = None
    """``Region.id`` of the region that the call ran in; ``None`` for a call that ran eagerly."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that the call went into: of its region, or of ``Trace.launched`` where it launched one
    itself. Empty for an eager call, for one that became no code of its own (a view), and where it is not known
    (``Region.inside``)."""
    tried: Tried | None = None
    """What making its calls again showed; ``None`` where nobody asked, or the group was not at risk."""
    data: dict[DataShown, int] = {}
    """Calls by what their data show; empty where nobody looked. Calls that are missing from it were not looked at."""

    @property
    def draw(self) -> Draw | None:
        """What it drew, as the ledger has it; ``None`` where it drew from no generator."""
        generator = self.facts.get(GENERATOR)
        if generator is None:
            return None
        return Draw(
            generator=str(generator),
            op=self.op,
            phase=self.phase,
            module=self.module,
            **self.place._asdict(),
            count=self.count,
            origin=SeedOrigin(self.facts.get(ORIGIN, SeedOrigin.UNUSED)),
            seeded_at=str(self.facts.get(SEEDED_AT, "")),
        )


class Event(Placed, frozen=True, kw_only=True, omit_defaults=True):
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
    _: ClassVar[Place]
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


class Draw(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Draws from one generator by one op or function at one place."""

    generator: str
    """``cpu``, ``cuda:0``; ``passed (cpu)`` for a ``torch.Generator`` that the program made; ``python``, ``numpy``."""
    op: str
    """The overload, or the function (``random.shuffle``, ``numpy.random.rand``)."""
    phase: Phase = Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    """Calls that drew."""
    origin: SeedOrigin = SeedOrigin.UNSEEN
    seeded_at: str = ""
    """``path:line`` of the call that seeded the generator, where it was seen."""

    @property
    def kind(self) -> GeneratorKind:
        """Whose the generator is."""
        return GeneratorKind.spelt(self.generator)


class MachineNumber(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """A number at one line, outside torch and the standard library, that is another one in every process."""

    source: NumberSource
    use: NumberUse
    what: str = ""
    """What was called: ``random.Random``, ``numpy.random``, ``os.urandom``, ``uuid.uuid4``, ``secrets``; of a seed, the
    generator that it seeded (``cpu``, ``torch``, ``python``, ``numpy``)."""
    _: ClassVar[Place]
    phase: Phase = Phase.OTHER
    by_library: bool = False
    """Was it an installed package that asked for it?"""
    count: int = 1

    @property
    def is_read_in_text(self) -> bool:
        """Is it an order or a hash that an earlier release read in the program's text? Nothing judges those."""
        is_hash = self.source is NumberSource.HASH and self.use is NumberUse.VALUE
        return self.use is NumberUse.ORDER or is_hash


class Allocation(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that allocated memory without writing it, and that torch would fill in deterministic mode."""

    op: str
    phase: Phase = Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    bytes: int = 0
    """Bytes of all those calls together: what the fill would write."""
    unfollowed: int = 0
    """Calls whose memory could not be followed to its first read: handed to numpy, to another library, to an op that
    writes at places that only its data know."""


class UnwrittenRead(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that read memory before it was wholly written."""

    op: str
    """The overload that read."""
    phase: Phase = Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    allocated_by: str = ""
    """The overload that gave the memory."""
    allocated_at: str = ""
    """``path:line`` of that call."""
    allocated_from: str = ""
    """The user's own line that led there, where that is another."""


class OverlapWrite(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that wrote to overlapping memory."""

    op: str
    kind: Overlap
    phase: Phase = Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    device: str = ""
    """The written tensor's device type, in the vocabulary's words."""


class Loader(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """A ``DataLoader`` that was iterated.

    Its place is that of its construction; of its first iteration where the construction was not seen.
    """

    _: ClassVar[Place]
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


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel as the generated code, or the program, has it."""

    name: str
    """``cpp_fused_index_add_0``, ``triton_poi_fused_add_1``, ``extern_kernels.mm``, ``aten.index_put_.default``; a
    kernel of the program's own by its function's name."""
    language: KernelLanguage
    device: str = ""
    """What it was generated for, in the vocabulary's words; empty where it is not known."""
    calls: int = 1
    """How often one execution of its region calls it."""
    ops: tuple[str, ...] = ()
    """The ops that went into it, as call groups of its region spell them, once each."""
    original_ops: tuple[str, ...] = ()
    """The ops of the program that those were made of, where its name or a comment says so (``aten.index_add``)."""
    is_matched: bool = True
    """Were ``ops`` told by the compiler? If not they were inferred from names, as for code that came from a cache."""
    atomic: bool | None = None
    """Does its source add, or combine otherwise, atomically in floating point? ``None`` where there is no source to
    read: an extern kernel, a fallback."""
    is_parallel: bool | None = None
    """Do several threads run it at once? A kernel that one thread runs adds in one order. ``None``: not known."""
    keeps_apart: bool = False
    """Does its source prove that no two threads meet in one number, wherever it adds atomically or writes at an index?
    Each then adds and writes in its own order."""
    lines: tuple[str, ...] = ()
    """The lines of its source that show it; only where source was asked for (``--with-source``)."""
    choice: str = ""
    """The configuration or the template that autotuning chose; empty where nothing was chosen."""
    by_stopwatch: bool | None = None
    """Was that chosen by timing candidates in this or in an earlier process? ``None``: could not be told, or nothing
    was chosen."""

    @property
    def is_the_programs(self) -> bool:
        """Did the program bring it? Then no setting of torch's changes its source."""
        return self.language is KernelLanguage.USER_TRITON

    def launched_on(self, device: str) -> Kernel:
        """As it runs on ``device``, where the program launches it itself: its source is the same there."""
        if self.device == device:
            return self
        return msgspec.structs.replace(self, device=device, is_parallel=None, keeps_apart=False)

    @property
    def rounds_by_choice(self) -> bool:
        """Was it chosen by a stopwatch, and may another choice round otherwise? Blocks of a pointwise kernel do not
        matter to it: each element is computed by itself."""
        return self.by_stopwatch is True and not self.name.startswith("triton_poi_")

    @property
    def adds_in_any_order(self) -> bool | None:
        """Do several threads add atomically to one number, so that the order varies? ``None`` where there is no source
        to read."""
        return None if self.atomic is None else self.atomic and not self.writes_in_order

    @property
    def writes_in_order(self) -> bool:
        """Is it certain that no two threads write to one number, whatever the indices are?"""
        return self.is_parallel is False or self.keeps_apart


class Region(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of code that was compiled, or captured, and runs as one. Forward and backward are two regions."""

    id: str
    """Unique in its trace, and the same in every run of one program: torch's compile id and the direction,
    ``0/1 backward``."""
    kind: RegionKind = RegionKind.COMPILED
    function: str = ""
    """Name of the function that was compiled."""
    location: str = ""
    """``path:line`` where that function begins, as for ``CallGroup``."""
    called_from: str = ""
    """``path:line`` of the user's line that first ran it, where that was seen."""
    backend: str = ""
    """``inductor``, ``aot_eager``, ``eager``, or the name of a custom one; empty for a CUDA graph."""
    device: str = ""
    """What its code was generated for, in the vocabulary's words; several are joined by commas."""
    direction: Direction = Direction.INFERENCE
    mode: str = ""
    """``reduce-overhead``, ``max-autotune``: what ``torch.compile`` was told."""
    dynamic: bool | None = None
    """Does it serve several sizes? ``None``: not known."""
    fullgraph: bool | None = None
    """Was the function to be compiled whole? ``None``: not known."""
    options: dict[str, FactValue] = {}
    """Inductor's settings as they stood while it was compiled, by the names of the table of settings."""
    deterministic_mode: DeterministicMode | None = None
    """torch's deterministic mode while it was compiled: what its kernels were chosen by. ``None``: not known."""
    origin: RegionOrigin = RegionOrigin.UNKNOWN
    uses_cuda_graphs: bool = False
    """Is it replayed from CUDA graphs (``mode="reduce-overhead"``)?"""
    by_compiled_autograd: bool = False
    """Did compiled autograd make it of a whole backward pass?"""
    executions: int = 0
    """How often it ran while recording; of a CUDA graph, its replays. 0 where its ops are dispatched one by one, or
    where it is not seen."""
    recompiles: str = ""
    """``Region.id`` of the region of the same function that did not serve, and for which this was compiled."""
    guard: str = ""
    """The condition that failed there, as torch words it."""
    inside: RegionInside = RegionInside.UNSEEN
    why: RegionGap | None = None
    """Why it was not seen whole; ``None`` for one that was."""
    ops: int = 0
    """Ops of its graph: what one execution adds to the counts of its call groups."""
    kernels: tuple[Kernel, ...] = ()
    """In the order of their first call."""
    tried: Tried | None = None
    """What running it again showed, each execution as one call; ``None`` where nobody asked or nothing is at risk."""


class BlindSpot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that ran and was not seen, or seen only in part."""

    kind: BlindSpotKind
    detail: str
    """What it was, in one sentence: a function's name, a number of worker processes."""
    location: str = ""
    """``path:line`` where it was noticed, when known."""
    count: int = 1
    """How often it was noticed."""


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator as torch sees it."""

    name: str
    capability: str = ""
    """Compute capability, ``9.0``; empty where the backend has none."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process's versions and settings when recording began. ``None`` means: could not be read."""

    python: str
    platform: str
    """Operating system and machine, ``Linux-x86_64``; no host name."""
    torch: str
    """torch's version with its local part, ``2.13.0+cpu``."""
    cuda: str | None = None
    """CUDA version that torch was built for."""
    hip: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    devices: tuple[CudaDevice, ...] = ()
    deterministic_mode: DeterministicMode = DeterministicMode.OFF
    fill_uninitialized_memory: bool | None = None
    cudnn_enabled: bool | None = None
    cudnn_deterministic: bool | None = None
    cudnn_benchmark: bool | None = None
    float32_matmul_precision: str | None = None
    """``highest``, ``high`` or ``medium``."""
    cuda_matmul_allow_tf32: bool | None = None
    cudnn_allow_tf32: bool | None = None
    allow_fp16_reduced_precision_reduction: bool | None = None
    allow_bf16_reduced_precision_reduction: bool | None = None
    sdp_backends: tuple[str, ...] | None = None
    """The attention backends that are switched on: ``flash``, ``mem_efficient``, ``math``, ``cudnn``."""
    num_threads: int | None = None
    """Intra-op threads."""
    num_interop_threads: int | None = None
    default_dtype: str | None = None
    torch_seed: int | None = None
    """``torch.initial_seed()``."""
    cuda_seed: int | None = None
    """The first CUDA device's initial seed; ``None`` when CUDA was not started."""
    variables: dict[str, str] = {}
    """Environment variables that the tables name and that were set. No others."""
    settings: dict[str, FactValue] = {}
    """Further settings by their dotted names, ``torch.backends.cuda.matmul.allow_fp16_accumulation``: those that the
    table of settings names and that could be read."""


class TraceSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recording that went into a trace; a merged trace has several."""

    name: str = ""
    """What the recording was called: the tracer's ``name``, or the script's file name."""
    rank: int | None = None
    """Rank in a distributed job, when there was one."""
    world_size: int | None = None
    optimizer_steps: int = 0
    """Optimizer steps that ended while recording."""
    calls: int = 0
    """Dispatched calls recorded."""
    fake_calls: int = 0
    """Calls on fake tensors (torch's ``FakeTensorMode``): counted as on the device that they claim; nothing was
    computed."""
    eager: bool = False
    """Was compilation switched off for the recording (``tracer run --eager``)?"""
    values: bool = False
    """Were digests of what calls read and wrote kept, in the file beside the trace (``tracer run --values``)?"""
    partial: str = ""
    """Why recording ended early (``interrupted``, an exception's class); empty for a whole one."""

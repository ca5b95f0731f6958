"""The records of a trace: frozen structs, each field saying what it holds.

People attach traces to public tickets: a trace names ops, lines of code and settings, and no host, user, absolute path
or tensor value. Calls are grouped as they happen: its size follows the lines of the program, not the length of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Union

import msgspec

from tracer import names


class TensorForm(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="is", tag="tensor"):
    """A tensor without its data."""

    dtype: str
    """As torch prints it, without ``torch.``: ``float32``."""
    shape: tuple[int | None, ...]
    """``None`` for a size that is not fixed, in compiled code."""
    stride: tuple[int | None, ...] | None = None
    """``None`` for one without gaps in the usual order, and where a layout has no strides."""
    layout: str = ""
    """``sparse_coo`` and its like; empty for a strided one."""
    device: str = ""
    """Its device, if not the one where the call ran."""

    def __str__(self) -> str:
        stride = "" if self.stride is None else f"[{_sizes(self.stride)}]"
        return f"{self.dtype}[{_sizes(self.shape)}]{stride}" + "".join(f".{w}" for w in (self.layout, self.device) if w)


class TorchWord(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="torch"):
    """A name of torch's: a dtype, a layout, a memory format; ``Generator`` for one that the program made."""

    name: str
    """``float32``, ``channels_last``."""

    def __str__(self) -> str:
        return f"torch.{self.name}"


class DeviceType(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="device"):
    """A device, without its number."""

    type: str

    def __str__(self) -> str:
        return f"torch.device({self.type!r})"


class Number(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="number"):
    """A number that JSON cannot write: an infinite one, a complex one, an integer of more than 64 bits."""

    text: str
    """As Python writes it."""

    def __str__(self) -> str:
        return self.text


class NotKept(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="not-kept"):
    """Something that was not kept, or the rest of a list that was cut."""

    def __str__(self) -> str:
        return "..."


ArgumentItem = Union[None, bool, int, float, str, TensorForm, TorchWord, DeviceType, Number, NotKept]  # noqa: UP007 (msgspec reads it on Python 3.10)
Argument = Union[ArgumentItem, list[Union[ArgumentItem, list[ArgumentItem]]]]  # noqa: UP007
"""One argument of a call: no schema of torch's has lists nested deeper than a collective's lists of tensors."""


def spelled(arguments: Mapping[str, Argument]) -> str:
    """Arguments as people read them: ``self=float32[10, 4], dim=0, source=float32[500, 4][1, 500]``."""
    return ", ".join(f"{name}={_spelled(value)}" for name, value in arguments.items())


def _spelled(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return str(value) if isinstance(value, msgspec.Struct) else repr(value)


def _sizes(sizes: tuple[int | None, ...]) -> str:
    return ", ".join(map(str, sizes)) or "()"


#: The schema that this release writes and reads.
SCHEMA = 1

FactValue = Union[bool, int, str]  # noqa: UP007 (msgspec reads it on Python 3.10)
"""A recorded fact's value; the vocabulary (``tracer.tables.rules``) lists each fact's values."""


class Place(NamedTuple):
    """The place where something happened, in the user's words."""

    location: str = ""
    """``path:line`` of the innermost frame outside torch, relative to the working directory, else to its
    ``site-packages``; for a backward call its forward op's. Empty if unknown."""
    function: str = ""
    """Qualified name of the function at ``location``."""
    called_from: str = ""
    """``path:line`` of the user's own frame (outside ``site-packages``) that led to ``location``; empty if that is
    ``location`` itself, or unknown."""


def split_place(location: str) -> tuple[str, int | None]:
    """Path and line of ``path:line``; all of it and ``None`` if it does not end in a line number."""
    match = re.fullmatch(r"(.+):([0-9]{1,9})", location, re.DOTALL)
    return (match[1], int(match[2])) if match else (location, None)


class _PlacedMeta(msgspec.StructMeta):
    """Gives a record the fields of ``Place`` where it says ``_: ClassVar[Place]``. A base's fields would come first."""

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
    """A record of something that happened at a place: it has the fields of ``Place``."""

    if TYPE_CHECKING:
        location: str = ""
        function: str = ""
        called_from: str = ""

    @property
    def place(self) -> Place:
        """The place where it happened."""
        return Place(self.location, self.function, self.called_from)


def is_set_up(phase: names.Phase, module: str, place: Place, device: FactValue | None) -> bool:
    """Return whether a library's constructor made the call on a CPU, outside every module and without a gradient. Most
    such code, a scheduler's for one, runs on the host whatever device a training runs on; a trace cannot show it."""
    is_apart = phase is names.Phase.OTHER and not module and device == "cpu"
    return is_apart and bool(place.location and place.called_from) and place.function.endswith("__init__")


class Tried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcome of a group's trials: calls repeated on the spot, from the same inputs and generator states."""

    calls: int = 0
    """Calls that were repeated."""
    trials: int = 0
    """All repetitions."""
    varied: int = 0
    """Trials whose result differed, in any bit, from the call's own."""
    distinct: int = 0
    """Most distinct results of one call, its own included; 0 if none was tried."""
    relative: float = 0.0
    """Largest difference from the call's own result, relative to the larger of the two; 1 if only one is a number."""
    first: int = 0
    """The first of the group's calls that varied, counted from 1 in its recording; 0 if none did."""
    untried: dict[names.Untried, int] = {}
    """Calls that were not repeated, by reason."""

    @property
    def is_rare(self) -> bool:
        """Whether it varied in under a tenth of the trials."""
        return 0 < self.varied * 10 < self.trials


#: Facts of a call that draws: the generator (``cpu``, ``cuda:0``, ``passed (cpu)``), where its state came from, and the
#: line that seeded it.
GENERATOR, ORIGIN, SEEDED_AT = "rng.generator", "rng.origin", "rng.seeded_at"
#: Fact of a call that draws from the CPU's default generator: where the state of other devices' came from, if from
#: elsewhere; followed by a kind of device (``.cuda``) where that is another than the rest.
ELSEWHERE = "rng.elsewhere"
#: Fact of a collective: how many ranks are in its process group, as torch's ``ProcessGroup.size`` answers.
GROUP_SIZE = "group_size"


def kind_drawn_from(facts: Mapping[str, FactValue]) -> names.GeneratorKind | None:
    """The kind of generator that a call with these ``facts`` drew from, if any."""
    generator = facts.get(GENERATOR)
    return None if generator is None else names.GeneratorKind.spelt(generator)


#: The device of tensors that have a shape and no data.
META = "meta"
#: Devices of calls that compute nothing: ``none`` for a call without a tensor.
NO_DEVICE = (META, "none")
#: Ops that draw for activations alone, neither for parameters nor for data.
_DROP = frozenset({"aten.bernoulli_", "aten.bernoulli", "aten.native_dropout"})


class CallGroup(Placed, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Calls that agree in everything but their count."""

    op: str
    """The overload as torch prints it: ``aten.add.Tensor``, ``torchvision.nms.default``, ``higher_order.cond``."""
    phase: names.Phase
    """The phase: forward, backward, recompute (activation checkpointing), optimizer or other."""
    module: str = ""
    """Module path as ``named_modules()`` spells it, led by the root's class name if no model was given; for a backward
    call its forward op's; empty outside modules."""
    _: ClassVar[Place]
    count: int = 1
    """Number of calls."""
    node: str = ""
    """The autograd node that made a backward call (``IndexBackward0``); a gradient accumulation is followed by the
    parameter's name (``AccumulateGrad: fc.weight``)."""
    forward_unknown: bool = False
    """Whether it is a backward call whose forward line is unknown. ``location`` is then the line that asked for the
    gradient."""
    host: names.HostCode | None = None
    """The reason why it is known to run on the host, whatever the training's device; ``None`` if it is not."""
    facts: dict[str, FactValue] = {}
    """Facts that conditions read: ``device``, ``dtype``, ``layout``, ``ndim`` of the tensor that the call works on,
    ``arg.*``, ``given.*``, ``shape.*`` for ops whose rules ask, ``subclass`` for a tensor subclass, ``group_size`` for
    a collective: the ranks in its process group (``ProcessGroup.size``)."""
    given: dict[str, Argument] = {}
    """The arguments of the first call, by their names in the op's schema; empty if they were not recorded."""
    fake: bool = False
    """Whether they were on fake tensors, which claim a device (torch's ``FakeTensorMode``)."""
    inputs: str = ""
    """The name of the first call's data in the file of inputs beside the trace; empty if they were not kept
    (``tracer run --keep-inputs``)."""
    region: str | None = None
    """``Region.id`` of the region that the call ran in; ``None`` for an eager call."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that the call became part of: of its region, or of ``Trace.launched`` if it launched one
    itself. Empty for an eager call, for one without code of its own (a view), and if unknown (``Region.inside``)."""
    tried: Tried | None = None
    """The outcome of its trials; ``None`` if trials were off, or the group was not at risk."""
    data: dict[names.DataShown, int] = {}
    """Calls by what their data show. Missing calls were not looked at."""
    settings: dict[str, FactValue] = {}
    """The values, for these calls, of settings that other calls of the recording ran under another value of; by
    ``Setting.key``. Led by ``forward.``: the value under which the forward op of these backward calls ran, where that
    is another. Empty where none changed between calls, and for compiled calls."""

    def drawn_on(self, device: str, *, is_fake: bool) -> CallGroup:
        """The group, recorded on a CPU, with the origin of what it draws from on ``device``. Outside the passes it may
        run on either: the recording does not tell a model that is initialized before it is moved from one that is
        initialized in its place. On fake tensors a factory is asked for the device."""
        own = self.facts.get(ORIGIN)
        there = self.facts.get(f"{ELSEWHERE}.{device}", self.facts.get(ELSEWHERE, own))
        if there == own or self.host is not None or self.facts.get(GENERATOR) != "cpu":
            return self
        if is_fake and "device" in self.given:
            return self
        if self.phase is names.Phase.OTHER and self.op.rpartition(".")[0] not in _DROP:
            there = names.SeedOrigin.DEVICE.value
        facts = {key: value for key, value in self.facts.items() if key != SEEDED_AT}
        return msgspec.structs.replace(self, facts={**facts, GENERATOR: device, ORIGIN: there})

    @property
    def draw(self) -> Draw | None:
        """Its entry in the ledger of draws; ``None`` if it drew from no generator."""
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
            origin=names.SeedOrigin(str(self.facts.get(ORIGIN, names.SeedOrigin.UNUSED))),
            seeded_at=str(self.facts.get(SEEDED_AT, "")),
        )


class Event(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Something that the program did at one line, once or often."""

    kind: names.EventKind
    name: str
    """Its subject: a variable's name, a setting's dotted name (``torch.use_deterministic_algorithms``), a
    ``Subsystem``, or a generator (``cpu``, ``cuda``, ``cuda:0``, ``passed``, ``python``, ``numpy``)."""
    before: str = ""
    """The value before, as text; empty for a variable that was not set."""
    value: str = ""
    """The value after the first time, as text; for a seed, how it was made (``SeedOrigin``)."""
    values_differ: bool = False
    """Whether a later time set another value."""
    seed: str = ""
    """The number that a generator was seeded with the first time; empty where it was none, or not seen."""
    is_drawn: bool = False
    """For a seed: whether the line takes it from what differs in every process: a clock, an unseeded generator."""
    drawn_at: str = ""
    """The line that took it from there, where one is known."""
    _: ClassVar[Place]
    phase: names.Phase = names.Phase.OTHER
    """The phase of its first time."""
    while_recording: bool = False
    """Whether it happened while ops were recorded."""
    first: int = 0
    """Position of its first time among all events and first calls of the recording."""
    last: int = 0
    """Position of its last time."""
    parts_phases: bool = False
    """Whether forward calls were recorded before it and backward calls after it, within one training step."""
    after_calls: bool = False
    """Whether forward calls were recorded before one of its times. If not, it separates nothing."""
    is_followed: bool = True
    """Whether calls were recorded after the first of those times too. A value restored at the end separates nothing."""
    count: int = 1


class Generator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the process's own generators over the recorded region."""

    name: str
    """``cpu``, ``cuda:0``, ``python`` (the module ``random``), ``numpy`` (``numpy.random``'s global one)."""
    origin: names.SeedOrigin
    """The origin of the state that was drawn from first; of Python's and NumPy's, of the first that the machine chose,
    if one was. Without draws, of the state at the end."""
    seeded_at: str = ""
    """``path:line`` of the call that seeded that state, if it was seen."""
    before: str = ""
    """Digest of its state when recording began: sixteen hexadecimal digits."""
    after: str = ""
    """Digest of its state when recording ended."""
    drew: bool | None = None
    """Whether the region drew from it, beyond what the program's seeding explains; ``None`` if unknown."""

    @property
    def kind(self) -> names.GeneratorKind:
        """Its owner."""
        return names.GeneratorKind.spelt(self.name)


class Draw(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Draws from one of torch's generators by one op at one place."""

    generator: str
    """``cpu``, ``cuda:0``; ``passed (cpu)`` for a ``torch.Generator`` of the program's."""
    op: str
    """The overload."""
    phase: names.Phase = names.Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    """Calls that drew."""
    origin: names.SeedOrigin = names.SeedOrigin.UNSEEN
    seeded_at: str = ""
    """``path:line`` of the call that seeded the generator, if it was seen."""

    @property
    def kind(self) -> names.GeneratorKind:
        """The generator's owner."""
        return names.GeneratorKind.spelt(self.generator)


class OwnGenerator(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Generators of the program's own, made without a fixed seed at one line outside torch and the standard library,
    that were drawn from, or may have been."""

    kind: names.GeneratorKind
    """``python-objects`` for a ``random.Random``, ``numpy-objects`` for a ``RandomState`` or ``Generator``."""
    is_seeded: bool = False
    """Whether it has a seed, which its line takes from what differs in every process: a clock, an unseeded
    generator."""
    drew: bool = True
    """Whether that is known; if not, loader workers may have copies, whose draws are not seen."""
    _: ClassVar[Place]
    phase: names.Phase = names.Phase.OTHER
    by_library: bool = False
    """Whether an installed package made it."""
    count: int = 1


class Allocation(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that allocated memory without writing it, which torch would fill in deterministic mode."""

    op: str
    phase: names.Phase = names.Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    bytes: int = 0
    """Bytes of all calls together: what the fill would write."""
    unfollowed: int = 0
    """Calls whose memory could not be followed to its first read: passed to NumPy, to another library, or to an op that
    writes where its data say."""


class UnwrittenRead(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that read memory before it was wholly written."""

    op: str
    """The overload that read."""
    phase: names.Phase = names.Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    allocated_by: str = ""
    """The overload that allocated the memory."""
    allocated_at: str = ""
    """``path:line`` of that call."""
    allocated_from: str = ""
    """The user's own line that led there, if it is another."""


class RowTrial(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls made again on a part of their rows: at one place if other rows matter to a row, else of one op."""

    op: str
    outcome: names.RowOutcome
    phase: names.Phase = names.Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    part: int = 0
    """Rows of the part that differed, the smaller one first; 0 if none did."""
    of: int = 0
    """Rows of the call."""
    count: int = 1
    relative: float = 0.0
    """Norm of the largest difference, in relation to that of the rows."""


class OverlapWrite(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Calls at one place that wrote to overlapping memory."""

    op: str
    kind: names.Overlap
    phase: names.Phase = names.Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    count: int = 1
    device: str = ""
    """The written tensor's device type, in the vocabulary's words."""


class Loader(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """A ``DataLoader`` that was iterated; its place is its construction, or its first iteration if that was not
    seen."""

    _: ClassVar[Place]
    iterations: int = 1
    """Iterators made of it."""
    workers: int = 0
    """Worker processes; 0: the data is loaded in the training process."""
    has_worker_init: bool = False
    shuffles: bool = False
    """Whether its sampler draws the order at random."""
    sampler: str = ""
    """Class of the sampler, or of the batch sampler if that is not torch's own; with its module if torch has another
    class of that name. Empty where the data set gives the order."""
    has_generator: bool = False
    origin: names.SeedOrigin = names.SeedOrigin.UNSEEN
    """The origin of the generator state that its order and its workers' seeds are drawn from."""
    seeded_at: str = ""
    workers_origin: names.SeedOrigin | None = None
    """The same for its workers' seeds, if its order is drawn from another generator."""
    workers_have_generator: bool = False
    """Whether a ``generator`` was passed for that one."""
    in_order: bool = True
    persistent_workers: bool = False
    start_method: str = ""
    """The workers' start method: ``fork``, ``spawn``, ``forkserver``; empty without workers."""
    epoch_set: bool | None = None
    """For a ``DistributedSampler``: whether ``set_epoch`` was called; ``None`` for other samplers, or if unknown."""
    iterated_at: tuple[str, ...] = ()
    """Lines that asked for its iterators."""
    fetched_by: str = ""
    """The method of its data set that gives samples: ``Photos.__getitem__``; empty where that has none in Python."""
    fetched_at: str = ""
    """The line at which that method begins."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel of the generated code, or of the program."""

    name: str
    """``cpp_fused_index_add_0``, ``triton_poi_fused_add_1``, ``extern_kernels.mm``, ``aten.index_put_.default``; for a
    kernel of the program's, its function's name."""
    language: names.KernelLanguage
    device: str = ""
    """The device that it was generated for, in the vocabulary's words; empty if unknown."""
    calls: int = 1
    """The number of its calls in one execution of its region."""
    ops: tuple[str, ...] = ()
    """The ops that were fused into it, as call groups of its region spell them, once each."""
    original_ops: tuple[str, ...] = ()
    """The program's ops that those come from, if its name or a comment says so (``aten.index_add``)."""
    atomic: bool | None = None
    """Whether its source combines floating-point numbers atomically. ``None`` without source: an extern kernel, a
    fallback."""
    is_parallel: bool | None = None
    """Whether several threads run it at once. One thread adds in one order. ``None``: unknown."""
    choice: str = ""
    """The configuration or the template that autotuning chose, if it did."""
    by_stopwatch: bool | None = None
    """Whether it was chosen by timing candidates, in this or an earlier process; ``None`` if unknown or not chosen."""

    @property
    def is_the_programs(self) -> bool:
        """Whether it is the program's own. Then no setting of torch changes its source."""
        return self.language is names.KernelLanguage.USER_TRITON

    def launched_on(self, device: str) -> Kernel:
        """A kernel that the program launches itself, as it runs on ``device``: its source is the same there."""
        if self.device == device:
            return self
        return msgspec.structs.replace(self, device=device, is_parallel=None)

    @property
    def rounds_by_choice(self) -> bool:
        """Whether it was chosen by timing, and another choice may round differently. A pointwise kernel's blocks do not
        matter: each element is computed by itself."""
        return self.by_stopwatch is True and not self.name.startswith("triton_poi_")

    @property
    def adds_in_any_order(self) -> bool | None:
        """Whether several threads add atomically, so that the order may vary; ``None`` without source."""
        return None if self.atomic is None else self.atomic and self.is_parallel is not False

    @property
    def verdict_of_additions(self) -> names.Verdict:
        """The verdict on its atomic additions: in a C++ loop each thread may have numbers of its own to add to."""
        of_threads = self.language is names.KernelLanguage.CPP
        return names.Verdict.CONDITIONAL if of_threads else names.Verdict.NONDETERMINISTIC


class Region(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """Code that was compiled, and runs as one. Forward and backward are two regions."""

    id: str
    """Unique in its trace, and equal in every run of a program: torch's compile id and direction, ``0/1 backward``."""
    function: str = ""
    """Name of the function that was compiled."""
    location: str = ""
    """``path:line`` where that function begins."""
    called_from: str = ""
    """``path:line`` of the user's line that first ran it, if that was seen."""
    backend: str = ""
    """``inductor``, ``aot_eager``, ``eager``, or the name of a custom one."""
    device: str = ""
    """The devices that its code was generated for, in the vocabulary's words, joined by commas."""
    direction: names.Direction = names.Direction.INFERENCE
    options: dict[str, FactValue] = {}
    """Inductor's settings while it was compiled, by the names of the table of settings."""
    deterministic_mode: names.DeterministicMode | None = None
    """torch's deterministic mode while it was compiled, by which its kernels were chosen. ``None``: unknown."""
    origin: names.RegionOrigin = names.RegionOrigin.UNKNOWN
    uses_cuda_graphs: bool = False
    """Whether it is replayed from CUDA graphs (``mode="reduce-overhead"``)."""
    by_compiled_autograd: bool = False
    """Whether compiled autograd made it of a whole backward pass."""
    executions: int = 0
    """How often it ran while recording. 0 if its ops are dispatched one by one, or it is not seen."""
    inside: names.RegionInside = names.RegionInside.UNSEEN
    why: names.RegionGap | None = None
    """The reason why it was not seen whole; ``None`` if it was."""
    ops: int = 0
    """Ops of its graph: what one execution adds to the counts of its call groups."""
    graph: str = ""
    """Digest of its graph, the numbers in it included; empty where it was not seen."""
    code: str = ""
    """Digest of the code that was generated; empty where it was not seen."""
    kernels: tuple[Kernel, ...] = ()
    """In the order of their first call."""


class CodeHint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a file of the program's own that ran; nobody knows whether the line itself did."""

    kind: names.HintKind
    location: str
    """``path:line``."""
    name: str
    """The function that is called there; of a generator, the class that makes it."""
    count: int = 1
    """Recordings in which its file ran."""


class BlindSpot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that ran and was not seen, or seen only in part."""

    kind: names.BlindSpotKind
    detail: str
    """Its description in one sentence: a function's name, a number of worker processes."""
    location: str = ""
    """``path:line`` where it was noticed, if known."""
    count: int = 1


class Child(Placed, frozen=True, kw_only=True, omit_defaults=True):
    """A process that the program started while its children were followed; several of one line if they are alike."""

    role: str
    """Its position in the order of starts: ``2``, and ``2.1`` for the first one that ``2`` started."""
    started_by: names.StartedBy
    _: ClassVar[Place]
    state: names.ChildState
    rank: int | None = None
    """Its rank in a distributed job, if it had one."""
    calls: int = 0
    """Calls that it dispatched, while recorded."""
    optimizer_steps: int = 0
    ended_by: str = ""
    """The reason why it ended early: ``exit code 1``; empty if it did not, or that is not known."""
    generators: tuple[Generator, ...] = ()
    """Its own generators, for one without a trace; without torch, those whose module it loaded."""
    draws: tuple[Draw, ...] = ()
    """Its draws, for one without a trace."""
    count: int = 1

    @property
    def parent(self) -> str:
        """The role of the process that started it; empty for the first process of all."""
        return self.role.rpartition(".")[0]

    @property
    def is_followed(self) -> bool:
        """Whether all that a recording would show of it is known. A loader's batches are inputs of recorded calls."""
        others = (each for each in self.generators if each.kind is not names.GeneratorKind.TORCH)
        may_differ = any(each.drew is not False and each.origin not in names.REPEATABLE for each in others)
        return self.state is names.ChildState.RECORDED or (self.made_no_op and not may_differ)

    @property
    def made_no_op(self) -> bool:
        """Whether it dispatched nothing; what it drew from Python or NumPy may be data all the same."""
        untrained = self.state is names.ChildState.UNTRAINED and not self.calls
        return untrained or self.state is names.ChildState.WITHOUT_TORCH


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator as torch sees it."""

    name: str
    capability: str = ""
    """Compute capability, ``9.0``; empty where the backend has none."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process's versions and settings when recording began. ``None``: could not be read."""

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
    has_triton: bool | None = None
    """Whether Triton could be imported beside a build of torch for GPUs; ``None`` for another build."""
    devices: tuple[CudaDevice, ...] = ()
    deterministic_mode: names.DeterministicMode = names.DeterministicMode.OFF
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
    """Further settings that the table of settings names, by their dotted names:
    ``torch.backends.cuda.matmul.allow_fp16_accumulation``."""


class TraceSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recording that a trace is made of; a merged trace has several."""

    name: str = ""
    """The tracer's ``name``, or the script's file name."""
    rank: int | None = None
    """Rank in a distributed job, if there was one."""
    world_size: int | None = None
    child: str = ""
    """``Child.role`` of the process that was recorded; empty for the one that the user started."""
    optimizer_steps: int = 0
    """Optimizer steps that ended while recording."""
    steps_by_hand: int = 0
    """Backward passes that stand for steps, as the program had no optimizer of torch's and asked for gradients."""
    gradients: names.Gradients = names.Gradients.UNKNOWN
    """Whether anything asked for a gradient. If not, a recording without an optimizer step is an inference."""
    calls: int = 0
    """Dispatched calls recorded."""
    fake_calls: int = 0
    """Calls on fake tensors (torch's ``FakeTensorMode``), counted on the device that they claim; nothing was
    computed."""
    fake_as: str = ""
    """The machine that a run on fake tensors was made as (``tracer run --fake --as cuda:8.0``); empty for another
    run."""
    eager: bool = False
    """Whether compilation was switched off (``tracer run --eager``)."""
    values: bool = False
    """Whether digests of what calls read and wrote were kept beside the trace (``tracer run --values``)."""
    magnitudes: bool = False
    """Whether magnitudes of results were kept beside the trace (``tracer run --magnitudes``)."""
    shaken: int | None = None
    """The seed with which results were changed by rounding (``tracer run --shake``); ``None`` where they were not."""
    partial: str = ""
    """The reason why recording ended early (``interrupted``, an exception's class); empty for a whole one."""

    @property
    def steps(self) -> int:
        """Training steps that ended while recording, whoever made them."""
        return self.optimizer_steps or self.steps_by_hand

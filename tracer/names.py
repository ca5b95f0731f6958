"""The closed vocabularies: every word that a trace, a table or a report may use, as an enum.

A word is parsed once, where a file is read; further in, only members travel. Each member's value is the
spelling in files and reports.
"""

from __future__ import annotations

import inspect
from enum import Enum
from itertools import zip_longest


class Word(str, Enum):
    """A closed word whose ``str()`` and format are its spelling (``enum.StrEnum`` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)

    __hash__ = str.__hash__  # as the spelling that they equal, at a string's speed


class SaidWord(Word):
    """A word that is declared with what a report says of it: the fields that its class annotates, else ``says``."""

    _value_: str
    says: str

    def __new__(cls, name: str, *told: object) -> SaidWord:
        member = str.__new__(cls, name)
        member._value_ = name
        for field, value in zip_longest(inspect.get_annotations(cls) or ["says"], told, fillvalue=""):
            setattr(member, str(field), value)
        return member


class Phase(Word):
    """The part of a training step in which a call was made."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"
    """Forward code run again inside the backward pass (activation checkpointing)."""
    OPTIMIZER = "optimizer"
    OTHER = "other"
    """Neither module code nor a loss: data preparation, gradient clipping, logging."""


#: Namespaces of torch's own ops, in every build.
TORCH_NAMESPACES = ("aten", "prims")


class Verdict(Word):
    """The possible outcomes of two runs of one call on the target: same machine, versions and settings."""

    DETERMINISTIC = "deterministic"
    """No mechanism is known by which two runs differ; the evidence says how strong that is."""
    SEEDED = "seeded"
    """The result depends on a generator's state alone; seeding it makes runs agree."""
    CONDITIONAL = "conditional"
    """Runs can differ only where data that no trace records (ties, duplicate indices) make them."""
    NONDETERMINISTIC = "nondeterministic"
    RAISES = "raises"
    """torch refuses the call with a ``RuntimeError``."""
    UNKNOWN = "unknown"
    """No answer is known; the reason says why."""


#: Verdicts under which two runs agree, given the same seeds.
SAFE = frozenset({Verdict.DETERMINISTIC, Verdict.SEEDED})
#: Verdicts under which two runs may differ.
VARYING = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)
#: Verdicts that need a change.
AT_RISK = (Verdict.RAISES, *VARYING)
#: Worst first: the order of findings, gates and colours.
SEVERITY: tuple[Verdict, ...] = (
    Verdict.RAISES,
    Verdict.NONDETERMINISTIC,
    Verdict.CONDITIONAL,
    Verdict.UNKNOWN,
    Verdict.SEEDED,
    Verdict.DETERMINISTIC,
)


class Cause(Word):
    """The mechanism by which two runs differ."""

    ATOMIC_ACCUMULATION = "atomic-accumulation"
    PARALLEL_SCAN = "parallel-scan"
    TIE_ORDER = "tie-order"
    WRITE_RACE = "write-race"
    ALGORITHM_SELECTION = "algorithm-selection"
    AUTOTUNE = "autotune"
    WORKSPACE = "workspace"
    REDUCTION_ORDER = "reduction-order"
    RNG = "rng"
    UNINITIALIZED_MEMORY = "uninitialized-memory"
    VENDOR_UNLISTED = "vendor-unlisted"
    OPAQUE = "opaque"


class UnknownReason(SaidWord):
    """Reasons for an ``unknown`` verdict, each with a sentence that says it and what a plan says to do."""

    says: str
    remedy: str

    NO_TABLE = (
        "no-table",
        "No table exists for this call's backend.",
        "Judge for a backend that has a table, or add one",
    )
    TABLE_NOT_REVIEWED = (
        "table-not-reviewed",
        "The table was not reviewed for this version of torch.",
        "Judge for a version of torch that the table was reviewed for",
    )
    FACT_NOT_RECORDED = (
        "fact-not-recorded",
        "A rule asks for a fact that the trace does not hold.",
        "Record the step again with this release, which takes the missing facts",
    )
    UNLISTED = (
        "unlisted",
        "The table lists what is known to be safe, and this op is not on it.",
        "Ask the vendor, or run the step twice and compare bits, then add a rule",
    )
    OPAQUE = (
        "opaque",
        "The op comes from outside torch's own namespaces, and no rule names it.",
        "Read the op's kernel, or run the step twice and compare bits, then add a rule",
    )
    NOT_COMPUTED = (
        "not-computed",
        "The call was made on `meta` tensors: nothing was computed, and a device may run another op instead.",
        "Record the step on real tensors, or under torch's `FakeTensorMode`",
    )
    NO_EVIDENCE = (
        "no-evidence",
        "A rule exists and says itself that nothing is known.",
        "Run the step twice from the same seed and compare bits",
    )


class EvidenceKind(SaidWord):
    """Kinds of evidence for a claim, strongest last."""

    VENDOR_KERNEL_LIST = "vendor-kernel-list", "from the vendor's list of kernels"
    """Weaker than a page that promises it of the op: which kernel an op runs is read elsewhere."""
    DOCUMENTED = "documented", "documented"
    SOURCE = "source", "read in the source"
    DISPATCHED = "dispatched", "seen in builds of torch"
    """A build of torch was seen to refuse the call, or to launch this kernel; nothing was computed."""
    MEASURED = "measured", "measured on a device"
    GENERATED = "generated", "seen in the code that this run compiled"
    """A trace's evidence, never a table's, as are the two below."""
    OBSERVED = "observed", "seen in the data of this run"
    TRIED = "tried", "tried in this run"


#: Evidence of one run: a trace's, never a table's.
OF_A_RUN = (EvidenceKind.GENERATED, EvidenceKind.OBSERVED, EvidenceKind.TRIED)


class Shown(SaidWord):
    """Results that a call's generated code shows."""

    ADDS_ATOMICALLY = "adds-atomically", "it adds atomically"
    """Floating-point numbers."""
    NO_ATOMICS = "no-atomics", "no two threads add to one element"
    """None of the kernels that it went into does."""
    CALLED = "called", "an eager kernel, called"
    TIMED = "timed", "chosen by timing several"


class Backend(Word):
    """Backends that a trace is judged for."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    MPS = "mps"
    NPU = "npu"
    RECORDED = "recorded"
    """Each call's own device."""

    @property
    def device(self) -> str:
        """The device type that torch gives its tensors: a ROCm build calls it ``cuda``."""
        return str((Backend.CUDA if self is Backend.ROCM else self).value)


class Settings(Word):
    """The process settings that a trace is judged under."""

    RECORDED = "recorded"
    DEFAULT = "default"
    """Deterministic mode off, torch's default flags."""
    WARN = "warn"
    DETERMINISTIC = "deterministic"
    """Deterministic mode on and ``CUBLAS_WORKSPACE_CONFIG`` set."""


class DeterministicMode(Word):
    """The state of ``torch.use_deterministic_algorithms``."""

    OFF = "off"
    WARN = "warn"
    ON = "on"


class HintKind(Word):
    """What a program's own code may do otherwise in another run or process; one recording shows nothing of it."""

    LISTING = "unsorted-listing"
    """A folder is listed, and not in a call of ``sorted``."""
    HASH_ORDER = "hash-order"
    """A set is gone through, or ``hash`` called, and not in a call of what ignores the order."""
    OWN_GENERATOR = "own-generator"
    """A class makes a generator for itself, of which each worker of a loader has a copy."""
    PYTHON_DRAW = "python-draw"
    NUMPY_DRAW = "numpy-draw"
    """A function of ``random``, or of ``numpy.random``, draws from the global generator: told if nobody seeded it."""


class BlindSpotKind(SaidWord):
    """A part of the program that a dispatch mode cannot see, sees only in part, or changes.

    Each is declared by its name in traces and reports, what the headline lists as not seen (empty if every call was
    seen), what is lost, as the end of a sentence, and a report's banner, which a count follows.
    """

    headline: str
    loses: str
    banner: str

    OTHER_PROCESS = "other-process", "other processes", "its ops are not seen"
    OTHER_THREAD = "other-thread", "other threads", "ops that it dispatches are not seen"
    COMPUTING_THREAD = "computing-thread", "other threads", "its ops are not seen"
    """A thread other than the recorded one on which modules ran or autograd recorded a graph, once for each thread."""
    DATALOADER = "dataloader-workers", "loader workers", "what they run is not seen"
    COMPILED = "compiled-region", "compiled code", "only ops that its kernels hand back to torch are seen"
    COMPILE_FELL_BACK = "compile-fell-back", "compiled code"
    """Compiled code ran eagerly because a dispatch mode was active."""
    SCRIPTED = "scripted-function", "scripted functions", "ops that the interpreter fuses are not seen"
    NATIVE = "native-code", "native code that is no op", "what it computes is not seen"
    """A function of an extension module that is built on torch."""
    MEMORY = "memory-of-no-op", "memory that no op gave", "whether it is written before it is read is not seen"
    """``torch.UntypedStorage(n)``, and an array of NumPy's ``empty`` that holds, in part or whole, what it held."""
    SHARED_MEMORY = (
        "shared-memory",
        "memory that processes share",
        "what several processes write there at once is not seen; `tracer repeat` compares what comes of it",
    )
    """A parameter that is put into memory which other processes may write too."""
    OVERRIDDEN = "overridden-op", "what runs in place of overridden ops", "what runs in its place is not seen"
    """An op of torch's with a kernel of somebody else's, which ``torch.library`` or an extension registered."""
    AUTOCAST = (
        "autocast-without-device",
        "what autocast casts on its device",
        "torch cast nothing, because there is no such device here, and calls are judged by the dtypes that they had; "
        "`tracer run --fake --as cuda:9.0` records the dtypes of a GPU",
    )
    TRITON = "triton-kernel", "Triton kernels"
    CUDA_GRAPH = "cuda-graph-replay", "CUDA graphs", "its calls count once, if its capture was recorded"
    HIGHER_ORDER = "higher-order-body", "bodies of higher-order ops", "its body did not run through the dispatcher"
    SUBCLASS = "tensor-subclass", "tensor subclasses", "no call that it made was seen"
    NO_FORWARD_LINK = "no-forward-link", "", "", "Backward calls without a link to their forward line"
    FAKE_VALUE = "fake-value", "branches on values of fake tensors", "fake tensors have no value: a stand-in was read"
    """The program asked for values, or for a shape that hangs on them, in a recording on fake tensors."""
    CHANGED_BY_RECORDING = "changed-by-recording"
    """A call that was seen, and whose result can differ from that without the recorder."""

    def of(self, code: str, lost: str = "") -> str:
        """Return the sentence on ``code``: ``scripted function gelu: ops that the interpreter fuses are not seen``."""
        lost = lost or self.loses
        return f"{code}: {lost}" if lost else code


class StartedBy(Word):
    """The ways in which a process is started."""

    SPAWN = "spawn"
    FORK = "fork"
    FORKSERVER = "forkserver"
    POOL = "pool"
    """As a worker of ``multiprocessing.Pool`` or ``ProcessPoolExecutor``, which takes whichever task comes next."""
    LOADER = "loader"
    PROGRAM = "program"
    """As a program of its own: by ``subprocess``, a shell, ``os.posix_spawn``."""
    UNSEEN = "unseen"
    """By a process that was not watched itself."""


class ChildState(SaidWord):
    """The recorded state of a process that the program started."""

    RECORDED = "recorded", "recorded"
    UNTRAINED = "untrained", "without a backward pass or optimizer step"
    """It loaded torch, and has no trace."""
    WITHOUT_TORCH = "without-torch", "without torch"
    CUT_SHORT = "cut-short", "killed or still running, nothing left"
    NOT_FOLLOWED = "not-followed", "not followed"
    """It was never heard of: another interpreter or user, ``python -I``, ``-E`` or ``-S``, a program that runs none."""
    ONE_TOO_MANY = "one-too-many", "not recorded: too many"


class Training(Word):
    """Whether a recording holds any of a training."""

    RECORDED = "recorded"
    """An optimizer stepped while recording."""
    INFERENCE = "inference"
    """None did, and nothing asked for a gradient: a model's forward pass was recorded to its end."""
    NONE = "none"
    ELSEWHERE = "elsewhere"
    """None did, and processes were started that were not followed."""
    UNKNOWN = "unknown"


class Gradients(Word):
    """Whether anything asked for a gradient while recording, by the graphs that autograd recorded."""

    UNKNOWN = "unknown"
    """Nobody looked, as with a torch that does not number its nodes."""
    NONE = "none"
    EVALUATING = "evaluating"
    """It did, for modules in evaluation mode alone: an evaluation that left gradients on."""
    ASKED = "asked"
    """It did, for a module in training mode that has parameters to train, or for a formula outside modules."""


class HostCode(SaidWord):
    """Reasons why calls are known to run on the host, whatever device a training runs on."""

    LOADER = "loader", "fetched by a DataLoader"
    """In this process."""
    DEVICE = "device", "recorded on the CPU besides the target's device"
    IMPORT = "import", "made by a library while it was imported"
    """Without a tensor: no step of a training is in them."""
    NAMED = "named", "named by --host, or a comment at the line"


class GeneratorKind(Word):
    """Owners of generators."""

    TORCH = "torch"
    """Torch's default one of a device; a trace spells it as the device, ``cpu`` or ``cuda:0``."""
    PASSED = "passed"
    """One that the program made and passed; a trace spells it with its device, ``passed (cpu)``."""
    PYTHON = "python"
    NUMPY = "numpy"
    NUMPY_OBJECTS = "numpy-objects"
    PYTHON_OBJECTS = "python-objects"

    @classmethod
    def spelt(cls, generator: object) -> GeneratorKind:
        """The kind of what a trace calls ``generator``: the one place where such a name is taken apart."""
        word = str(generator).partition(" ")[0]
        return cls(word) if word in cls._value2member_map_ else cls.TORCH

    def on(self, device: object) -> str:
        """Return a trace's name for one of this kind on ``device``."""
        return f"{self} ({device})"


#: Kinds with one generator for the whole process, which no op of torch draws from.
HOST_GENERATORS = (GeneratorKind.PYTHON, GeneratorKind.NUMPY)


class SeedOrigin(SaidWord):
    """Origins of the state that a generator draws from."""

    label: str
    says: str
    """Words before ``at train.py:3``, or alone."""
    verdict: Verdict
    """The one whose colour it bears."""

    PROGRAM = "program", "seeded", "seeded by the program", Verdict.SEEDED
    RESTORED = "restored", "restored", "given a saved state by the program", Verdict.SEEDED
    FIXED = "fixed", "fixed", "never seeded; torch starts such a generator from a fixed number", Verdict.SEEDED
    MACHINE = ("machine", "not seeded", "left to the machine: another state in every process", Verdict.NONDETERMINISTIC)
    UNSEEN = "unseen", "not known", "may have been seeded before recording began", Verdict.UNKNOWN
    DEVICE = (
        "device",
        "by device",
        "the host's generator or an accelerator's, of which one was seeded",
        Verdict.CONDITIONAL,
    )
    MOVED_ON = "moved-on", "moved on", "a checkpoint draws other numbers than its forward did", Verdict.CONDITIONAL
    """It did not save the state (``preserve_rng_state=False``)."""
    UNUSED = (
        "unused",
        "worker seeds",
        "a DataLoader's seed for its workers; the loader is judged for it",
        Verdict.SEEDED,
    )
    """The draw moves the generator on, and what was drawn is told of elsewhere or dropped."""


#: Origins of a generator's state that repeat from run to run.
REPEATABLE = (SeedOrigin.PROGRAM, SeedOrigin.RESTORED, SeedOrigin.FIXED)


class EventKind(Word):
    """Something that the program did once and that later calls depend on."""

    FIRST_USE = "first-use"
    """A part of torch or a library was used for the first time (``Subsystem``)."""
    VARIABLE = "variable"
    SETTING = "setting"
    SEED = "seed"


class Subsystem(SaidWord):
    """Subsystems that read settings once, at their first use."""

    PYTHON = "python", "the interpreter"
    """Before the first line of the program."""
    TORCH = "torch", "torch"
    CUDA = "cuda", "CUDA"
    CUBLAS = "cublas", "cuBLAS"
    """The first matrix product on CUDA."""
    CUDNN = "cudnn", "cuDNN"
    NCCL = "nccl", "NCCL"
    """The first process group or collective over NCCL."""
    NPU = "npu", "the NPU's runtime"
    HCCL = "hccl", "HCCL"
    INDUCTOR = "inductor", "Inductor"
    """The first compilation by ``torch.compile``."""


class Overlap(SaidWord):
    """Overlaps of the memory that an op writes."""

    ITSELF = "itself", "a write to elements that share an address"
    SOURCE = "source", "a write to memory that the same op reads"
    """Some, not all, of the written tensor's."""
    INDEXED = "indexed", "a write by an index to elements that may share an address"
    """Data decide which are written."""
    OPERAND = "operand", "a write to a factor of the product"
    ENTRIES = "entries", "a write to entries of a list that share memory"
    """One kernel works on all entries at once where there is such a kernel."""
    COPIED_FROM = "copied-from", "a non_blocking copy from memory that is written before anything waits for it"
    COPIED_INTO = "copied-into", "a non_blocking copy into memory that is read before anything waits for it"


class About(SaidWord):
    """The subject of a finding, or of a row of the table of settings."""

    label: str
    risk: str
    """The risk to a run, in a sentence; ``{s}`` and ``{was}`` become ``s`` and ``were`` for several."""
    open: str
    """The possible risk, where it is not known."""

    CALL = "call", "call", "call{s}", "unknown call{s}"
    SETTING = "setting", "setting", "setting{s}", "unknown setting{s}"
    """A process-wide setting or an environment variable, as it stood."""
    LATE = "late", "set too late", "setting{s} made too late", "setting{s} made perhaps too late"
    CHANGED = "changed", "changed midway", "change{s} midway", "unknown change{s} midway"
    """A setting or seed that changed in the middle of the recorded region."""
    GENERATOR = "generator", "generator", "unseeded generator{s}", "generator{s} that {was} not seen seeded"
    MEMORY = "memory", "unwritten memory", "read{s} of unwritten memory", "read{s} of memory perhaps unwritten"
    OVERLAP = (
        "overlap",
        "overlapping write",
        "write{s} to overlapping memory",
        "write{s} to memory that perhaps overlaps",
    )
    LOADER = "loader", "data loading", "data loader{s}", "data loader{s} without an answer"
    COMPILED = "compiled", "torch.compile", "point{s} about torch.compile", "open point{s} about torch.compile"
    """Code that ``torch.compile`` compiled, or would have."""


class Prerequisite(Word):
    """Further conditions for a change to work."""

    DETERMINISTIC_MODE = "deterministic-mode"
    """Deterministic mode is on: without it the edited line varies as well."""
    NOTHING_RAISES = "nothing-raises"
    """Everything that raises under this setting was changed, or set right, before."""
    BEFORE_COMPILING = "before-compiling"
    """It is made before anything is compiled: kernels are chosen then."""


class Differs(Word):
    """Between which executions a setting makes a difference."""

    RUNS = "runs"
    """Two runs on the same machine with the same versions and settings."""
    MACHINES = "machines"
    """Only other machines, versions or values of the setting: each repeats itself."""


class Detail(Word):
    """The amount of detail that a terminal shows."""

    BRIEF = "brief"
    """The verdict and the counts."""
    USUAL = "usual"
    """As much as fits one screen: findings with one answer are one row."""
    WHOLE = "whole"
    """Every finding, why, and its evidence."""


class Direction(Word):
    """The half of a differentiated function that a region is."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"
    """No gradient was asked for: the whole of it."""


class RegionOrigin(SaidWord):
    """Origins of a region's code."""

    COMPILED = "compiled", "compiled while it was recorded"
    CACHE = "cache", "its code came from a cache"
    EARLIER = "earlier", "compiled before recording began"
    UNKNOWN = "unknown"


class RegionInside(SaidWord):
    """The part of a region that was seen."""

    OPS_AND_KERNELS = "ops-and-kernels"
    """Its ops, and the kernels that they went into."""
    OPS = "ops", "Which kernels its ops went into was not seen"
    KERNELS = "kernels", "Its ops were not seen, its kernels were"
    """They are in no call group."""
    DISPATCHED = "dispatched", "Its ops ran one by one, and were counted as eager ones are"
    UNSEEN = "unseen", "Its inside was not seen"


class RegionGap(SaidWord):
    """Reasons why a region was not seen whole."""

    EARLIER = "compiled-earlier", "it was compiled before recording began"
    BACKEND = "other-backend", "only its backend can read the code that it makes"
    FORMAT = "format", "this torch tells of it in a form that is not known here"
    HOOKS = "no-hooks", "this torch lacks what a recorder listens to"
    NEVER_RAN = "never-ran", "it did not run while recording"


class KernelLanguage(SaidWord):
    """The language of a kernel."""

    CPP = "cpp", "generated C++"
    TRITON = "triton", "generated Triton"
    TEMPLATE = "template", "template"
    """One of Inductor's templates, filled in: a matrix product, a convolution, FlexAttention."""
    EXTERN = "extern", "eager kernel, called"
    """One of torch's own kernels, called with its result's memory: ``extern_kernels.mm``."""
    FALLBACK = "fallback", "eager kernel, called"
    """An op that Inductor did not lower and called as eager code would: ``aten.index_put_``."""
    USER_TRITON = "user-triton", "your Triton kernel"
    OTHER = "other", "kernel"


#: Kernels that generated code calls.
CALLED_KERNELS = (KernelLanguage.EXTERN, KernelLanguage.FALLBACK)


class RowOutcome(Word):
    """What became of calls that were made again on a part of their rows."""

    EQUAL = "equal"
    """The rows that both have are equal, bit by bit."""
    ROUNDING = "rounding"
    """They differ by what rounding does: another number of rows takes another kernel, or another split of the work."""
    MIXED = "mixed"
    """The result, or a random draw, is made of several rows together."""
    UNKNOWN = "unknown"
    """Which arguments hold rows is not known."""
    UNTRIED = "untried"
    """The call draws, varies from the same rows too, or could not be made again."""


class Untried(SaidWord):
    """Reasons why a call was not replayed."""

    RARER = "rarer", "of groups that had been tried before"
    """After the first calls of a group, only ever rarer ones are."""
    MEMORY = "memory", "too large for --trial-memory"
    COLLECTIVE = "collective", "collective"
    SIDE_EFFECTS = "side-effects", "with effects that cannot be undone"
    FRESH_MEMORY = "fresh-memory", "that return unwritten memory"
    NO_RESULT = "no-result", "without a result to compare"
    NO_INPUT = "no-input", "without a tensor to read"
    NOT_COMPUTED = "not-computed", "on fake tensors"
    LAYOUT = "layout", "of a layout that cannot be copied"
    GENERATOR = "generator", "of a generator whose state cannot be restored"
    CAPTURED = "captured", "of a CUDA graph"
    COMPILED = "compiled", "in compiled code or of the program's own kernels"
    FAILED = "failed", "that raised when replayed"


class DataShown(SaidWord):
    """The evidence of one call's data; each call that was looked at shows one of these."""

    DISTINCT = "distinct", "no element written twice"
    TWICE_ONTO_ZEROS = "twice-onto-zeros", "no element written more than twice, onto zeros"
    """Two add up to the same sum in either order."""
    EXACT = "exact", "integers whose sums are exact"
    NO_TIES = "no-ties", "no ties and no NaN"
    """Where ties would show."""
    DUPLICATES = "duplicates", "elements written several times"
    """By what does not add exactly."""
    TIES = "ties", "ties"
    """Equal values stand where it shows which of them comes first."""
    NAN = "nan", "a NaN among the ordered values"
    UNREAD = "unread", "nothing that could be read"


#: What settles a call whose order of writing, adding or choosing is not fixed: for these data it cannot show.
SETTLING_DATA = frozenset({DataShown.DISTINCT, DataShown.TWICE_ONTO_ZEROS, DataShown.EXACT, DataShown.NO_TIES})


class PlaceKind(Word):
    """Kinds of places of a training step at which magnitudes are taken."""

    INITIAL = "initial"
    """A parameter or buffer before the first call of its module."""
    INPUT = "input"
    OUTPUT = "output"
    ROWS = "rows"
    """A number for the content of each row that the program hands to a module; compared with nothing, joined by."""
    REGION = "region"
    LOSS = "loss"
    """The tensor that ``backward`` was called on."""
    OUTPUT_GRADIENT = "output-gradient"
    """The gradient of a module's result, which enters its backward."""
    GRADIENT = "gradient"
    """The gradient of a parameter: as backward leaves it, and in the phase of the optimizer as that reads it."""
    PARAMETER = "parameter"
    """A parameter after the optimizer's step."""
    STATE = "state"
    """An optimizer's state of a parameter, after its step: ``exp_avg of fc.weight``."""
    CALL = "call"
    """The result of one call, inside a module that was asked for."""
    DRAW = "draw"
    """A generator's state before a call that draws from it; no place of the step, and never compared as one."""
    DECISION = "decision"
    """What a call decides by, in runs that keep their decisions or follow others; compared where one fell otherwise."""
    FLIP = "flip"
    """How many values a run that follows another would have decided otherwise, of how many; no place of the step."""


#: Stands behind the path of a module in ``PlaceOptions.calls_of``: its own code alone, without the modules it calls.
OWN_CODE = "."
#: Stands before the path of a module in ``PlaceOptions.shake_in``: not its forward is shaken, but its backward.
BACKWARD_OF = "the backward of "


class ValueKind(Word):
    """Kinds of tensors and states that no recorded call made."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer-state"
    """An optimizer's state of a parameter: ``exp_avg of fc.weight``."""
    HYPERPARAMETER = "hyperparameter"
    """A number of an optimizer's parameter group: ``lr of group 0``."""
    BATCH = "batch"
    """A loader's batch; its position is its place in the epoch, from 0."""
    INDICES = "indices"
    """A sampler's indices of a batch, by its position; no digest where the data set gives the order itself."""
    WORKER_SEED = "worker-seed"
    """The seed that a loader's iterator seeds its workers with."""
    OUTSIDE = "outside"
    """Any other tensor: made before recording, by NumPy, by a constant."""
    OUTSIDE_CHANGE = "outside-change"
    """A known tensor whose bytes changed while no op wrote."""
    GENERATOR = "generator"
    """The state of a generator, named as the trace names it: ``cpu``, ``cuda:0``, ``passed (cpu)``, ``python``."""
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    DATA_POSITION = "data-position"
    FILE = "file"
    """A file that the run wrote, when it ended; its position is 1 for what was appended to an older one."""
    TEXT = "text"
    """The same of a file of text."""
    LOSS = "loss"
    """The number that ``backward`` was called on: the bits of a double. Its position counts those of one step."""
    NAN = "nan"
    """A state that holds NaN when recording ends, by its kind and name: ``parameter fc.weight``."""
    OUTPUT = "output"
    """A line that Python printed to standard output: ``line 3``."""
    TASK = "task"
    """A worker of a pool begins a task: the digest of what it was sent."""
    RETURNED = "returned"
    """What models that do not train gave (``output of GPT2LMHeadModel``), or a function that was called again."""

    def of(self, name: str) -> str:
        """``parameter fc.weight``: the kind once, where ``name`` begins with it."""
        kind = self.value.replace("-", " ")
        return name if name.startswith(f"{kind} ") else f"{kind} {name}"


class AcceptedBy(SaidWord):
    """Reasons why a present finding is accepted."""

    BASELINE = "baseline", "by the baseline"
    COMMENT = "comment", "by a comment in the code"
    SELECTION = "selection", "by what the gate was told to look at"


class RootKind(Word):
    """How a difference was detected; ``causes`` makes a cause of it."""

    ENTERED = "entered"
    DRAWN = "drawn"
    NUMBERS = "numbers"
    READ = "read"
    """Its inputs differ, and who wrote them agrees."""
    WROTE = "wrote"
    """All that it read agrees."""
    GAP = "gap"
    AHEAD = "ahead"
    """It draws otherwise (another number of values, or in one run alone), so that a later draw finds another state."""
    RANKS = "ranks"
    """The first call of an optimizer that reads otherwise on two ranks."""

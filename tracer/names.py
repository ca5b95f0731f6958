"""The closed vocabularies: every word that a trace, a table or a report may use, as an enum.

A word is parsed once, where a file is read; further in, only members travel. Each member's value is the
spelling in files and reports.
"""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """A closed word whose ``str()`` and format are its spelling (``enum.StrEnum`` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)

    __hash__ = str.__hash__  # as the spelling that they equal, at a string's speed


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


class UnknownReason(Word):
    """Reasons for an ``unknown`` verdict, each with a sentence that says it and what a plan says to do."""

    _value_: str
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

    def __new__(cls, name: str, says: str, remedy: str) -> UnknownReason:
        member = str.__new__(cls, name)
        member._value_, member.says, member.remedy = name, says, remedy
        return member


class EvidenceKind(Word):
    """Kinds of evidence for a claim, strongest last."""

    VENDOR_KERNEL_LIST = "vendor-kernel-list"
    """The vendor's list of kernels says so of the kernel that the op runs. Weaker than a page that promises it of the
    op: which kernel an op runs is read elsewhere, and where both speak of one op they do not always agree."""
    DOCUMENTED = "documented"
    SOURCE = "source"
    DISPATCHED = "dispatched"
    """A build of torch was seen to refuse the call, or to launch this kernel; nothing was computed."""
    MEASURED = "measured"
    GENERATED = "generated"
    """The code that this very run compiled shows it: a trace's evidence, never a table's, as are the two below."""
    OBSERVED = "observed"
    """The data of this run show it, and speak of no other data."""
    TRIED = "tried"
    """Calls of this run were replayed on the spot, and the results compared."""


#: Evidence of one run: a trace's, never a table's.
OF_A_RUN = (EvidenceKind.GENERATED, EvidenceKind.OBSERVED, EvidenceKind.TRIED)


class Shown(Word):
    """Results that a call's generated code shows."""

    ADDS_ATOMICALLY = "adds-atomically"
    """A kernel that the call went into adds floating-point numbers atomically."""
    NO_ATOMICS = "no-atomics"
    """None of the kernels that it went into adds anything atomically."""
    CALLED = "called"
    """It stayed an op: its eager kernel is called."""
    TIMED = "timed"
    """The kernel was chosen by timing several."""


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


class BlindSpotKind(Word):
    """A part of the program that a dispatch mode cannot see, sees only in part, or changes.

    Each is declared by its name in traces and reports, what the headline lists as not seen (empty if every call was
    seen), what is lost, as the end of a sentence, and a report's banner, which a count follows.
    """

    _value_: str
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

    def __new__(cls, name: str, headline: str = "", lost: str = "", banner: str = "") -> BlindSpotKind:
        """Declare one kind."""
        kind = str.__new__(cls, name)
        kind._value_, kind.headline, kind.loses, kind.banner = name, headline, lost, banner
        return kind

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


class ChildState(Word):
    """The recorded state of a process that the program started."""

    RECORDED = "recorded"
    UNTRAINED = "untrained"
    """It loaded torch, and made neither a backward pass nor an optimizer step: it has no trace."""
    WITHOUT_TORCH = "without-torch"
    """It loaded no torch, so it made no op."""
    CUT_SHORT = "cut-short"
    """It was killed, or runs on, and has left nothing."""
    NOT_FOLLOWED = "not-followed"
    """It was never heard of: another interpreter or user, ``python -I``, ``-E`` or ``-S``, a program that runs none."""
    ONE_TOO_MANY = "one-too-many"
    """As many as are recorded were recorded already."""


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


class HostCode(Word):
    """Reasons why calls are known to run on the host, whatever device a training runs on."""

    LOADER = "loader"
    """A ``DataLoader`` fetched them in this process."""
    DEVICE = "device"
    """They were recorded on the CPU in a recording whose other calls ran on the target's device."""
    IMPORT = "import"
    """A library made them while it was imported, without a tensor: no step of a training is in them."""
    NAMED = "named"
    """``--host``, or a comment at their line, says so."""


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


class SeedOrigin(Word):
    """Origins of the state that a generator draws from."""

    PROGRAM = "program"
    RESTORED = "restored"
    FIXED = "fixed"
    """Nobody seeded it, and torch starts such a generator from one fixed number: a new ``torch.Generator``."""
    MACHINE = "machine"
    """It was left to the machine: another state in every process."""
    UNSEEN = "unseen"
    """It may have been seeded before recording began: nobody was watching."""
    DEVICE = "device"
    """It depends on the device: the call may draw from the host's generator or from an accelerator's, of which the
    program seeded one."""
    MOVED_ON = "moved-on"
    """A checkpoint runs its forward again and draws other numbers: it did not save the state
    (``preserve_rng_state=False``)."""
    UNUSED = "unused"
    """It does not matter: the draw moves the generator on, and what was drawn is told of elsewhere or dropped."""


#: Origins of a generator's state that repeat from run to run.
REPEATABLE = (SeedOrigin.PROGRAM, SeedOrigin.RESTORED, SeedOrigin.FIXED)


class EventKind(Word):
    """Something that the program did once and that later calls depend on."""

    FIRST_USE = "first-use"
    """A part of torch or a library was used for the first time (``Subsystem``)."""
    VARIABLE = "variable"
    SETTING = "setting"
    SEED = "seed"


class Subsystem(Word):
    """Subsystems that read settings once, at their first use."""

    PYTHON = "python"
    """The interpreter: before the first line of the program."""
    TORCH = "torch"
    CUDA = "cuda"
    CUBLAS = "cublas"
    """The first matrix product on CUDA."""
    CUDNN = "cudnn"
    NCCL = "nccl"
    """The first process group or collective over NCCL."""
    NPU = "npu"
    HCCL = "hccl"
    INDUCTOR = "inductor"
    """The first compilation by ``torch.compile``."""


class Overlap(Word):
    """Overlaps of the memory that an op writes."""

    ITSELF = "itself"
    """Several elements of the written tensor lie at one address."""
    SOURCE = "source"
    """The written tensor shares some, not all, of its memory with one that the same op reads."""
    INDEXED = "indexed"
    """Several elements lie at one address of a tensor that is written by an index: data decide which are written."""
    OPERAND = "operand"
    """A product writes to one of its factors."""
    ENTRIES = "entries"
    """Entries of a list share memory, and one kernel works on all entries at once where there is such a kernel."""
    SHARED = "shared"
    """Several processes wrote to parameters that they share."""
    COPIED_FROM = "copied-from"
    """The host writes to memory that a copy to a device, which nobody waited for, may still read."""
    COPIED_INTO = "copied-into"
    """The host reads memory that a copy from a device, which nobody waited for, may not have written yet."""


class About(Word):
    """The subject of a finding, or of a row of the table of settings."""

    CALL = "call"
    SETTING = "setting"
    """A process-wide setting or an environment variable, as it stood."""
    LATE = "late"
    """A setting that was made after what reads it had read it."""
    CHANGED = "changed"
    """A setting or seed that changed in the middle of the recorded region."""
    GENERATOR = "generator"
    MEMORY = "memory"
    """Memory that was read before it was wholly written."""
    OVERLAP = "overlap"
    LOADER = "loader"
    COMPILED = "compiled"
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


class RegionOrigin(Word):
    """Origins of a region's code."""

    COMPILED = "compiled"
    """It was compiled while it was watched."""
    CACHE = "cache"
    EARLIER = "earlier"
    """It was compiled before recording began."""
    UNKNOWN = "unknown"


class RegionInside(Word):
    """The part of a region that was seen."""

    OPS_AND_KERNELS = "ops-and-kernels"
    """Its ops, and the kernels that they went into."""
    OPS = "ops"
    """Its ops; what they became is not known."""
    KERNELS = "kernels"
    """The kernels alone: its ops are in no call group."""
    DISPATCHED = "dispatched"
    """Nothing was fused: its ops reached the recorder one by one, and were counted as eager ones are."""
    UNSEEN = "unseen"


class RegionGap(Word):
    """Reasons why a region was not seen whole."""

    EARLIER = "compiled-earlier"
    """It was compiled before recording began: what tells of its ops had gone by."""
    BACKEND = "other-backend"
    """Its backend makes code that nobody but it can read."""
    FORMAT = "format"
    """This torch says it otherwise than any that the recorder was written for."""
    HOOKS = "no-hooks"
    """This torch lacks what the recorder listens to."""
    NEVER_RAN = "never-ran"
    """It was compiled and did not run while recording: nothing of it is counted."""


class KernelLanguage(Word):
    """The language of a kernel."""

    CPP = "cpp"
    TRITON = "triton"
    TEMPLATE = "template"
    """One of Inductor's templates, filled in: a matrix product, a convolution, FlexAttention."""
    EXTERN = "extern"
    """One of torch's own kernels, called with its result's memory: ``extern_kernels.mm``."""
    FALLBACK = "fallback"
    """An op that Inductor did not lower and called as eager code would: ``aten.index_put_``."""
    USER_TRITON = "user-triton"
    OTHER = "other"


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


class Untried(Word):
    """Reasons why a call was not replayed."""

    RARER = "rarer"
    """Calls of its group had been tried before it: of many, ever rarer ones are."""
    MEMORY = "memory"
    """More bytes would have been copied than trials may."""
    COLLECTIVE = "collective"
    SIDE_EFFECTS = "side-effects"
    """It does, or may do, something outside its results that cannot be put back."""
    FRESH_MEMORY = "fresh-memory"
    """Its result is memory that nobody wrote, or it makes a tensor larger."""
    NO_RESULT = "no-result"
    """It gives no tensor that could be compared: a number is handed to Python."""
    NO_INPUT = "no-input"
    NOT_COMPUTED = "not-computed"
    """It was made on fake tensors, which compute nothing."""
    LAYOUT = "layout"
    """A tensor that it writes, or may write, cannot be copied as it lies: sparse, nested, a lazy sign."""
    GENERATOR = "generator"
    """It draws from a generator whose state cannot be read."""
    CAPTURED = "captured"
    """A CUDA graph was being captured, or replays it."""
    COMPILED = "compiled"
    """It ran in compiled code whose inside is not known, or launched a kernel of the program's own."""
    FAILED = "failed"


class DataShown(Word):
    """The evidence of one call's data; each call that was looked at shows one of these."""

    DISTINCT = "distinct"
    """No place is written twice."""
    TWICE_ONTO_ZEROS = "twice-onto-zeros"
    """No place is written more than twice, and zeros stood there: two add up to the same sum in either order."""
    EXACT = "exact"
    """Numbers that fall together are whole, and so small that each sum is exact."""
    NO_TIES = "no-ties"
    """Values that are ordered have no ties where these would show, and no NaN."""
    DUPLICATES = "duplicates"
    """Some place is written several times, by what does not add exactly."""
    TIES = "ties"
    """Equal values stand where it shows which of them comes first."""
    NAN = "nan"
    """NaN stands among what is ordered."""
    UNREAD = "unread"


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
    """What a loader's sampler gave for the batch of that position, before this process loads it, or when workers did;
    no digest where the data set gives the order itself."""
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
    """What ``backward`` was called on, if that is one number: in place of a digest the bits of it as a double. Its
    position counts those of one step, from 0."""
    NAN = "nan"
    """A state that holds NaN when recording ends, by its kind and name: ``parameter fc.weight``."""
    OUTPUT = "output"
    """A line that Python printed to standard output: ``line 3``."""
    TASK = "task"
    """A worker of a pool begins a task: the digest of what it was sent."""
    RETURNED = "returned"
    """What a program got: ``output of GPT2LMHeadModel ['logits']``, from models that do not train; what the function
    returned that was called several times."""


class AcceptedBy(Word):
    """Reasons why a present finding is accepted."""

    BASELINE = "baseline"
    COMMENT = "comment"
    SELECTION = "selection"
    """It was chosen out by what a gate looks at."""


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

"""The causes of a divergence, and the evidence that decides between them.

A cause is declared in ``RootCause``, the evidence in ``Shows``, in the order in which it is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.names import RootKind, ValueKind, Word

_SEED_ALL = (
    "Call `torch.manual_seed(0)` at the top of the script; `random.seed(0)` and `numpy.random.seed(0)` too, where these"
    " are drawn from, before the first draw."
)
_FIND_OUT = (
    "Run `tracer repeat --vary all` and compare which circumstances move it; record from the script's first line."
)


class RootCause(Word):
    """Why two runs diverge at a call.

    Each is declared by its name, its words in a sentence about the root, what to change next and how, the kinds of
    input values whose difference it stands for, and what a resumed run with such a root did not restore.
    """

    _value_: str
    words: str
    step: tuple[str, str]
    entered: tuple[ValueKind, ...]
    lacks: ValueKind | None

    KERNEL = (
        "kernel",
        "by its kernel",
        "Replace {call}, which does not repeat itself",
        "`tracer explain {op}` says what may be written instead and what deterministic mode does to it.",
    )
    """Everything that the call read agrees, and what it wrote differs."""
    DRAW = "draw", "by a random draw", "Seed generator {name}", _SEED_ALL, (), ValueKind.GENERATOR
    """The generator that it draws from was in a different state."""
    UNWRITTEN_MEMORY = (
        "unwritten-memory",
        "by unwritten memory",
        "Write before reading in {call}",
        "Write all of it first: `torch.nn.init` for a parameter, `torch.zeros` elsewhere.",
    )
    """It read unwritten memory."""
    INPUT_DATA = (
        "input-data",
        "by its input data",
        "Give the step the same data{named}",
        "Seed what makes it (NumPy's generators have seeds of their own), sort what is listed, read fixed copies.",
        (ValueKind.BATCH, ValueKind.OUTSIDE),
        ValueKind.DATA_POSITION,
    )
    """Its input data differ: a batch, a NumPy array, a constant."""
    INITIAL_STATE = (
        "initial-state",
        "by its initial state",
        "Begin every run with the same {kind} {name}",
        "Seed before the model is built, `torch.manual_seed(0)`, or load the same checkpoint in every run.",
        (ValueKind.PARAMETER, ValueKind.BUFFER, ValueKind.GRADIENT, ValueKind.OPTIMIZER_STATE),
    )
    """A parameter, a buffer or an optimizer's state differs before the first step."""
    ARGUMENT = (
        "argument",
        "by one of its arguments",
        "Give {call} the same arguments in every run",
        "Compute them from what is the same in every run; where a layout differs, `.contiguous()` before the call.",
    )
    """A Python number or a dtype among its arguments differs, or the part of a tensor that it is given."""
    OUTSIDE_CHANGE = (
        "outside-change",
        "by bytes that no op changed",
        "Let nothing else write to what {call} reads",
        "A NumPy array, a thread, a process or a library that shares the memory writes to it: wait for it before"
        " the call, or give the step a copy.",
        (ValueKind.OUTSIDE_CHANGE,),
    )
    """Bytes that it read changed while no op wrote."""
    STRUCTURE = (
        "structure",
        "by different calls",
        "Make the same calls in every run",
        "Look at the condition, the length or the order of the loop that decides which calls follow.",
    )
    """The runs make different calls from here on."""
    THREAD_ORDER = (
        "thread-order",
        "by the order of threads",
        "Give each branch of `torch.jit.fork` tensors of its own",
        "Let no branch write to a tensor, or draw from a generator, that another one reads: return what it made.",
    )
    """Threads of torch's own pool (branches of ``torch.jit.fork``) reached it in another order."""
    SETTING = (
        "setting",
        "by a different setting",
        "Set {name} alike in every run",
        "Set it, and what else differs, in the script or in the shell that starts it.",
    )
    """As ``kernel``, and the runs had different settings or versions."""
    COLLECTIVE = (
        "collective",
        "by the results of other processes",
        "Find the rank that gives {call} something else",
        "Record each rank of both runs with `tracer run --values`, and hold rank against rank with `tracer diff`.",
    )
    """The other processes of the job sent different data."""
    UNKNOWN = "unknown", "by an unknown cause"
    """The runs diverge here, and what was recorded does not say why."""

    def __new__(
        cls,
        name: str,
        words: str,
        title: str = "Find out what {call} differs by",
        remedy: str = _FIND_OUT,
        entered: tuple[ValueKind, ...] = (),
        lacks: ValueKind | None = None,
    ) -> RootCause:
        """Declare one cause."""
        cause = str.__new__(cls, name)
        cause._value_ = name
        cause.words, cause.step, cause.entered, cause.lacks = words, (title, remedy), entered, lacks
        return cause

    @property
    def is_of_op(self) -> bool:
        """Whether it is the op itself that differs, so that the tables' verdict on it counts."""
        return self in (RootCause.KERNEL, RootCause.SETTING)

    @property
    def is_from_lines(self) -> bool:
        """Whether a line of the program may have given what differs: an input of the call, or which call it is."""
        return not self.is_of_op and self not in (RootCause.THREAD_ORDER, RootCause.COLLECTIVE)

    @classmethod
    def of_entered(cls, kind: ValueKind) -> RootCause:
        """The cause if an input value of ``kind`` differs."""
        return next((cause for cause in cls if kind in cause.entered), cls.UNKNOWN)


def _always(_: object) -> bool:
    return True


class Shows(Word):
    """The evidence at a root, in the order in which it is tried; the first that holds decides.

    Each is declared by its name, its cause, the ways in which such roots are found, its condition on the properties of
    ``roots.RootEvidence``, the sentence that explains it (``RootEvidence`` words what depends on the values that
    differ), and what to change next where that is not the cause's. The cause of ``ENTERED`` and ``KEPT`` is that of
    the value.
    """

    _value_: str
    cause: RootCause
    ways: tuple[RootKind, ...]
    holds: Callable[[Any], bool]
    says: str
    step: tuple[str, str] | None

    FORKED = (
        "forked",
        RootCause.THREAD_ORDER,
        (RootKind.GAP, RootKind.READ),
        lambda root: root.hangs_on_forks,
        "branches of `torch.jit.fork` run on threads of torch's own, and reached what they share in another order",
    )
    STRUCTURE = "structure", RootCause.STRUCTURE, (RootKind.GAP,)
    DRAWN_AHEAD = (
        "drawn-ahead",
        RootCause.DRAW,
        (RootKind.AHEAD,),
        _always,
        "",  # worded by the runs' draws
        (
            "Draw alike from {name} in every run",
            "How often and how much it draws hangs on something that differs: the data, a condition, a length.",
        ),
    )
    DRAW = "draw", RootCause.DRAW, (RootKind.DRAWN,)
    NUMBERS = "numbers", RootCause.ARGUMENT, (RootKind.NUMBERS,)
    RANKS = (
        "ranks",
        RootCause.COLLECTIVE,
        (RootKind.RANKS,),
        _always,
        "it is the first optimizer call whose inputs differ between the two ranks: they were not synchronized",
    )
    COLLECTIVE = (
        "collective",
        RootCause.COLLECTIVE,
        (RootKind.WROTE,),
        lambda root: root.is_collective,
        "what this process sent agrees in both runs, and what it received differs: the other processes sent"
        " different data",
    )
    UNWRITTEN = (
        "unwritten",
        RootCause.UNWRITTEN_MEMORY,
        (RootKind.ENTERED, RootKind.READ, RootKind.WROTE),
        lambda root: root.reads_unwritten,
    )
    KEPT = "kept", RootCause.INITIAL_STATE, (RootKind.READ,), lambda root: root.reads_kept
    BATCH = (
        "batch",
        RootCause.INPUT_DATA,
        (RootKind.ENTERED, RootKind.READ),
        lambda root: root.entered is ValueKind.BATCH,
    )
    ENTERED = "entered", RootCause.UNKNOWN, (RootKind.ENTERED, RootKind.READ), lambda root: root.entered is not None
    NOT_DIGESTED = (
        "not-digested",
        RootCause.UNKNOWN,
        (RootKind.READ, RootKind.WROTE),
        lambda root: root.is_undigested,
        "it reads something that could not be digested, so the first difference is unknown",
    )
    OTHER_TENSORS = (
        "other-tensors",
        RootCause.INPUT_DATA,
        (RootKind.READ, RootKind.WROTE),
        lambda root: root.is_given_other_tensors,
        "it is given different tensors in the second run, or the same ones in another order",
        ("Walk the tensors in one order", "Sort what comes out of a set, a dictionary of hashes or a directory."),
    )
    OTHER_LAYOUT = (
        "other-layout",
        RootCause.ARGUMENT,
        (RootKind.READ,),
        lambda root: root.reads_other_layout,
        "the calls that wrote what it reads agree in both runs, but it reads a view with different strides: Python"
        " chose another order of axes, or an op returned its result in another memory format",
    )
    PART = (
        "part",
        RootCause.INPUT_DATA,
        (RootKind.READ,),
        lambda root: root.read_part is not None,
        "it reads a part of data from outside the recorded calls that no earlier call read, and the data differ there",
    )
    CHANGED_OUTSIDE = (
        "changed-outside",
        RootCause.OUTSIDE_CHANGE,
        (RootKind.READ,),
        _always,
        "the calls that wrote what it reads agree in both runs, yet it reads different bytes: something other than an"
        " op wrote to this memory",
    )
    SETTINGS = "settings", RootCause.SETTING, (RootKind.WROTE,), lambda root: bool(root.compared.settings)
    OTHER_CODE = (
        "other-code",
        RootCause.STRUCTURE,
        (RootKind.WROTE,),
        lambda root: root.runs_other_code,
        "everything that the compiled region read agrees, but it was compiled to different code: a Python number or"
        " branch that differs between the runs went into it, or the compiler's settings or measurements differ",
    )
    OPAQUE = (
        "opaque",
        RootCause.UNKNOWN,
        (RootKind.WROTE,),
        lambda root: root.is_opaque,
        "everything that it read agrees in both runs, and what it wrote differs: it is a custom op, which may draw,"
        " read a clock or add in any order, and nothing inside it is recorded",
    )
    THREADS = (
        "threads",
        RootCause.UNKNOWN,
        (RootKind.WROTE,),
        lambda root: root.is_beside_threads,
        "everything that it read agreed when it was digested, and what it wrote differs",
        RootCause.OUTSIDE_CHANGE.step,
    )
    REPLAYED = (
        "replayed",
        RootCause.UNKNOWN,
        (RootKind.WROTE,),
        lambda root: root.is_called_deterministic and root.tried.trials > 0,
        "everything that it read agrees in both runs, and what it wrote differs; replayed on the spot it gave the same"
        " result each time, so its kernel is not the cause",
    )
    NOT_REPLAYED = (
        "not-replayed",
        RootCause.UNKNOWN,
        (RootKind.WROTE,),
        lambda root: root.is_called_deterministic,
        "everything that it read agrees in both runs, and what it wrote differs; it was not replayed to see whether"
        " its kernel varies",
    )
    KERNEL = (
        "kernel",
        RootCause.KERNEL,
        (RootKind.WROTE,),
        _always,
        "everything that it read agrees in both runs, and what it wrote differs",
    )

    def __new__(
        cls,
        name: str,
        cause: RootCause,
        ways: tuple[RootKind, ...],
        holds: Callable[[Any], bool] = _always,
        says: str = "",
        step: tuple[str, str] | None = None,
    ) -> Shows:
        """Declare one kind of evidence."""
        shows = str.__new__(cls, name)
        shows._value_ = name
        shows.cause, shows.ways, shows.holds, shows.says, shows.step = cause, ways, holds, says, step
        return shows

    @property
    def is_against_tables(self) -> bool:
        """Whether it wrote something else, though the tables call it deterministic, and is not blamed."""
        return self in (Shows.THREADS, Shows.REPLAYED, Shows.NOT_REPLAYED)

    @classmethod
    def at(cls, way: RootKind, evidence: object) -> Shows:
        """The evidence at a root that was found in this way."""
        return next(shows for shows in cls if way in shows.ways and shows.holds(evidence))

"""Causes of divergence, and what shows each: its name, its words, the roots at which it is tried, and what decides it.

A cause is declared in ``RootCause``, what shows it in ``Shows``, whose order is the order of trying.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tracer.divergence.matching.ways import Way
from tracer.names import ValueKind, Word


class RootCause(Word):
    """Why two runs diverge at a call.

    Each is declared by its name, its words in a sentence about the root, the kinds of values that it stands for where
    they came in different, and what a resumed run lacks that has such a root.
    """

    _value_: str
    words: str
    entered: tuple[ValueKind, ...]
    lacks: ValueKind | None

    KERNEL = "kernel", "by its kernel"
    """All that the call read agrees, and what it wrote differs."""
    DRAW = "draw", "by a random draw", (), ValueKind.GENERATOR
    """The generator that it draws from was in another state."""
    UNWRITTEN_MEMORY = "unwritten-memory", "by memory that nobody wrote"
    """It read memory that nobody had written."""
    INPUT_DATA = (
        "input-data",
        "by the data that came in",
        (ValueKind.BATCH, ValueKind.OUTSIDE),
        ValueKind.DATA_POSITION,
    )
    """Data came in different: a batch, an array of NumPy, a constant."""
    INITIAL_STATE = (
        "initial-state",
        "by the state at the start",
        (ValueKind.PARAMETER, ValueKind.BUFFER, ValueKind.GRADIENT, ValueKind.OPTIMIZER_STATE),
    )
    """A parameter, a buffer or an optimizer's state was another one before the first step."""
    ARGUMENT = "argument", "by a number among its arguments"
    """A Python number among its arguments is another one."""
    OUTSIDE_CHANGE = "outside-change", "by bytes that changed from outside", (ValueKind.OUTSIDE_CHANGE,)
    """Bytes that it read changed while no op wrote."""
    STRUCTURE = "structure", "by other calls"
    """The runs make other calls from here on."""
    SETTING = "setting", "by another setting"
    """As for ``kernel``, and the runs had other settings or versions."""
    COLLECTIVE = "collective", "by what other processes gave"
    """What the other processes of the job gave differs."""
    UNKNOWN = "unknown", "by what is not known"
    """The runs diverge here, and what was recorded does not say why."""

    def __new__(
        cls, name: str, words: str, entered: tuple[ValueKind, ...] = (), lacks: ValueKind | None = None
    ) -> RootCause:
        """Declare one cause."""
        cause = str.__new__(cls, name)
        cause._value_ = name
        cause.words, cause.entered, cause.lacks = words, entered, lacks
        return cause

    @property
    def is_of_op(self) -> bool:
        """Is it the op itself that differs, so that the tables' verdict on it counts?"""
        return self in (RootCause.KERNEL, RootCause.SETTING)

    @classmethod
    def of_entered(cls, kind: ValueKind) -> RootCause:
        """The cause where a value of ``kind`` came in different."""
        return next((cause for cause in cls if kind in cause.entered), cls.UNKNOWN)


class Evidence(Protocol):
    """What two recordings show of one root."""

    @property
    def is_collective(self) -> bool:
        """Do other processes have a part in its result?"""

    @property
    def reads_unwritten(self) -> bool:
        """Did it read memory that nobody had written?"""

    @property
    def reads_kept(self) -> bool:
        """Does a resumed run read a state of the steps before, of which the recording knows no name?"""

    @property
    def entered(self) -> ValueKind | None:
        """What came in different."""

    @property
    def is_undigested(self) -> bool:
        """Did something that was not digested have a part in it?"""

    @property
    def reads_other_tensors(self) -> bool:
        """Is it given other tensors, or the same in another order?"""

    @property
    def reads_other_layout(self) -> bool:
        """Is it given the same bytes in another memory layout?"""

    @property
    def only_writes(self) -> bool:
        """Does it write to a tensor of which it reads nothing?"""

    @property
    def is_called_deterministic(self) -> bool:
        """Do the tables call it deterministic, without a trial that showed otherwise?"""

    @property
    def is_opaque(self) -> bool:
        """Is it an op of somebody's own, of which the tables know nothing?"""

    @property
    def was_tried(self) -> bool:
        """Was it replayed on the spot?"""

    @property
    def runs_beside_threads(self) -> bool:
        """Did the program start threads of its own?"""

    @property
    def runs_other_code(self) -> bool:
        """Is it a region that was compiled to other code in the second recording?"""

    @property
    def settings_differ(self) -> bool:
        """Do settings or versions differ that kernels read?"""

    @property
    def is_region(self) -> bool:
        """Is it a compiled region?"""


def _always(_: Evidence) -> bool:
    return True


class Shows(Word):
    """What comparing shows at a root, in the order in which it is tried; the first that holds is the root's.

    Each is declared by its name, its cause, the ways in which such roots are found, what decides it, and the sentence
    that explains it, which a report makes where ``says`` is empty. The cause of ``ENTERED`` and ``KEPT`` is that of the
    value that differs.
    """

    _value_: str
    cause: RootCause
    ways: tuple[Way, ...]
    holds: Callable[[Evidence], bool]
    says: str

    STRUCTURE = "structure", RootCause.STRUCTURE, (Way.GAP,)
    """The runs make other calls from here on."""
    DRAWN_AHEAD = "drawn-ahead", RootCause.DRAW, (Way.AHEAD,)
    """It draws otherwise, and the next draw of both finds the generator in another state."""
    DRAW = "draw", RootCause.DRAW, (Way.DRAWN,)
    """The generator was in another state."""
    NUMBERS = "numbers", RootCause.ARGUMENT, (Way.NUMBERS,)
    """Numbers among its arguments, or the parts of tensors that it is given, are others."""
    RANKS = (
        "ranks",
        RootCause.COLLECTIVE,
        (Way.RANKS,),
        _always,
        "it is the first call of an optimizer that reads otherwise on the two ranks: what it reads was not brought"
        " together",
    )
    """An optimizer reads otherwise on two ranks."""
    COLLECTIVE = (
        "collective",
        RootCause.COLLECTIVE,
        (Way.WROTE,),
        lambda root: root.is_collective,
        "what this process gave agrees in both runs, and what came back differs: the other processes gave otherwise",
    )
    """What this process gave agrees, and what came back differs."""
    UNWRITTEN = (
        "unwritten",
        RootCause.UNWRITTEN_MEMORY,
        (Way.ENTERED, Way.READ, Way.WROTE),
        lambda root: root.reads_unwritten,
    )
    """It reads memory that nobody had written."""
    KEPT = "kept", RootCause.INITIAL_STATE, (Way.READ,), lambda root: root.reads_kept
    """A resumed run reads a state that was kept from the steps before."""
    BATCH = (
        "batch",
        RootCause.INPUT_DATA,
        (Way.ENTERED, Way.READ),
        lambda root: root.entered is ValueKind.BATCH,
    )
    """A loader gave another batch."""
    ENTERED = "entered", RootCause.UNKNOWN, (Way.ENTERED, Way.READ), lambda root: root.entered is not None
    """It reads something that no recorded call wrote."""
    NOT_DIGESTED = (
        "not-digested",
        RootCause.UNKNOWN,
        (Way.READ, Way.WROTE),
        lambda root: root.is_undigested,
        "it reads something that could not be digested, so what differs first is not known",
    )
    """It reads something that could not be digested."""
    OTHER_TENSORS = "other-tensors", RootCause.INPUT_DATA, (Way.READ,), lambda root: root.reads_other_tensors
    """It is given other tensors, or the same in another order."""
    OTHER_LAYOUT = (
        "other-layout",
        RootCause.ARGUMENT,
        (Way.READ,),
        lambda root: root.reads_other_layout,
        "the calls that wrote what it reads agree in both runs, but it is given a view that lies otherwise in memory:"
        " Python chose another order of axes, or an op gave its result in another layout",
    )
    """The same bytes, given as a view of another layout."""
    CHANGED_OUTSIDE = (
        "changed-outside",
        RootCause.OUTSIDE_CHANGE,
        (Way.READ,),
        _always,
        "the calls that wrote what it reads agree in both runs, and yet it reads other bytes: something that is no op"
        " wrote to this memory",
    )
    """The calls that wrote what it reads agree, and it reads other bytes."""
    OTHER_TARGET = (
        "other-target",
        RootCause.INPUT_DATA,
        (Way.WROTE,),
        lambda root: root.only_writes,
        "it reads nothing, and writes to another tensor in the second run: of another shape or dtype, or in another"
        " order of the same tensors",
    )
    """It writes to another tensor, of which it reads nothing."""
    SETTINGS = "settings", RootCause.SETTING, (Way.WROTE,), lambda root: root.settings_differ
    """All that the call read agrees, what it wrote differs, and so do settings."""
    OTHER_CODE = (
        "other-code",
        RootCause.STRUCTURE,
        (Way.WROTE,),
        lambda root: root.runs_other_code,
        "all that the compiled region read agrees, but it was compiled to other code: a number or a branch of Python"
        " that differs between the runs went into it, or the compiler's settings or measurements differ",
    )
    """A region was compiled to other code."""
    OPAQUE = (
        "opaque",
        RootCause.UNKNOWN,
        (Way.WROTE,),
        lambda root: root.is_opaque,
        "all that it read agrees in both runs, and what it wrote differs: it is an op of the program's own, which may"
        " draw, read a clock or add in any order, and nothing inside it is recorded",
    )
    """An op from outside torch, whose inside nobody sees."""
    THREADS = (
        "threads",
        RootCause.UNKNOWN,
        (Way.WROTE,),
        lambda root: root.is_called_deterministic and root.runs_beside_threads,
    )
    """What it read may have been written by another thread between its digest and the call."""
    REPLAYED = (
        "replayed",
        RootCause.UNKNOWN,
        (Way.WROTE,),
        lambda root: root.is_called_deterministic and root.was_tried,
        "all that it read agrees in both runs, and what it wrote differs; replayed on the spot it gave the same each"
        " time, so its kernel is not what differs",
    )
    """Replayed on the spot it did not vary, and the tables call it deterministic."""
    NOT_REPLAYED = (
        "not-replayed",
        RootCause.UNKNOWN,
        (Way.WROTE,),
        lambda root: root.is_called_deterministic,
        "all that it read agrees in both runs, and what it wrote differs; whether its kernel varies was not tried on"
        " the spot",
    )
    """The tables call it deterministic, and nobody tried."""
    REGION = (
        "region",
        RootCause.KERNEL,
        (Way.WROTE,),
        lambda root: root.is_region,
        "all that the compiled region read agrees in both runs, and what it gave differs",
    )
    """All that a compiled region read agrees, and what it wrote differs."""
    KERNEL = (
        "kernel",
        RootCause.KERNEL,
        (Way.WROTE,),
        _always,
        "all that it read agrees in both runs, and what it wrote differs: its kernel does not repeat itself",
    )
    """All that the call read agrees, and what it wrote differs."""

    def __new__(
        cls,
        name: str,
        cause: RootCause,
        ways: tuple[Way, ...],
        holds: Callable[[Evidence], bool] = _always,
        says: str = "",
    ) -> Shows:
        """Declare what may show at a root."""
        shows = str.__new__(cls, name)
        shows._value_ = name
        shows.cause, shows.ways, shows.holds, shows.says = cause, ways, holds, says
        return shows

    @classmethod
    def at(cls, way: Way, evidence: Evidence) -> Shows:
        """What shows at a root that was found in this way."""
        return next(shows for shows in cls if way in shows.ways and shows.holds(evidence))

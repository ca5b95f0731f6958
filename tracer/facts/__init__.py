"""A fact of a call that conditions use: its name, its values, and its reader. Domains are finite, so that the lint can
enumerate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Getter = Callable[[Args, Kwargs], Any]
ArgumentReader = Getter

#: A fact that could not be read; it is omitted from the trace.
MISSING = object()


def argument_getter(func: Any, *names: str) -> Getter | None:
    """A getter for the first of ``names`` in ``func``'s schema; ``None`` if it has none. It returns the default for a
    trailing argument that the dispatcher omits."""
    schema = getattr(func, "_schema", None)
    for position, argument in enumerate(schema.arguments if schema is not None else ()):
        if (name := argument.name) in names:
            default = argument.default_value if argument.has_default_value() else None
            if argument.kwarg_only:
                return lambda args, kwargs: kwargs.get(name, default)
            return lambda args, kwargs: args[position] if len(args) > position else kwargs.get(name, default)
    return None


def takes_lists(func: Any, name: str) -> bool:
    """Return whether the argument is a list, as the indices of ``index_put`` are and an embedding's backward's not."""
    schema = getattr(func, "_schema", None)
    arguments = schema.arguments if schema is not None else ()
    return any(argument.name == name and "List" in str(argument.type) for argument in arguments)


def dropout_reader(func: Any, *further: str) -> ArgumentReader | None:
    """Return a reader of whether dropout is active: not at rate 0, nor in evaluation. ``further``: other rate names."""
    rate = argument_getter(func, "dropout_p", "dropout", *further)
    trains = argument_getter(func, "train", "training")
    if rate is None or trains is None:
        return None if rate is None else lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0
    return lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0 and trains(args, kwargs) is not False


def training_reader(func: Any) -> ArgumentReader | None:
    """Return a reader of whether an op that has no rate runs in training."""
    trains = argument_getter(func, "train", "training")
    return None if trains is None else lambda args, kwargs: bool(trains(args, kwargs))


def getters(func: Any, *names: str) -> tuple[Getter, ...] | None:
    """A getter for each of ``names``, or ``None`` if ``func`` lacks one; ``self|input`` for either."""
    getters_by_name = [argument_getter(func, *name.split("|")) for name in names]
    present = tuple(get for get in getters_by_name if get is not None)
    return present if len(present) == len(getters_by_name) else None


def of_arguments(*names: str) -> Callable[[Callable[..., Any]], Callable[[Any, object], ArgumentReader | None]]:
    """Turns a function of these arguments' values, which returns the fact's value, into a ``Makes``. An overload that
    lacks one has no reader. ``self|input`` is either; ``stride?``, which stands last, is ``None`` where it lacks."""

    def decorate(question: Callable[..., Any]) -> Callable[[Any, object], ArgumentReader | None]:
        def make(func: Any, services: object) -> ArgumentReader | None:
            values = getters(func, *(name for name in names if not name.endswith("?")))
            if values is None:
                return None
            optional = [
                argument_getter(func, name[:-1]) or (lambda args, kwargs: None) for name in names if name.endswith("?")
            ]
            every = (*values, *optional)
            return lambda args, kwargs: question(*[get(args, kwargs) for get in every])

        return make

    return decorate


Value = bool | int | str
Test = Callable[[Args, Kwargs], bool]
BOOL: tuple[Value, ...] = (False, True)


class Kind(Enum):
    """The time at which a fact is recorded, and the meaning of its absence."""

    COMMON = auto()
    """Recorded for every call; an op without a tensor argument has ``none`` for all but ``device``."""
    ASKED = auto()
    """Recorded for ops whose rules use it. Absent: the verdict is ``unknown``, unless another key decides."""
    NOTED = auto()
    """Recorded if it holds, and may exempt a call. Absent: it does not hold."""
    MARKED = auto()
    """Recorded if it holds, and may make a call a finding. Absent: it does not hold."""
    DERIVED = auto()
    """Derived by the judge from a call group; never missing."""
    PROCESS = auto()
    """About the process, a generator or a loader, for rows of the table of settings."""


class DistinctNumbers(Protocol):
    """Properties of the numbers in a tensor."""

    @property
    def dim(self) -> int:
        """The dimension along which no number occurs twice."""

    @property
    def has_no_negative(self) -> bool:
        """Whether no number is negative."""


class KnownIndices(Protocol):
    """The tensors of a recording that are known to hold distinct numbers."""

    def of(self, tensor: Any) -> DistinctNumbers | None:
        """Return what is known of ``tensor``."""

    def distinct_along(self, tensor: Any, dim: int) -> bool:
        """Return whether no number occurs twice along ``dim``."""

    def distinct_together(self, tensors: Sequence[Any]) -> bool:
        """Return whether the rows among ``tensors`` are distinct as pairs or the like."""

    def largest_whole(self, tensor: Any) -> int | None:
        """Return the magnitude that no number in ``tensor`` exceeds, if all are known to be whole; else ``None``."""

    def has_one_number(self, tensor: Any) -> bool:
        """Return whether each number in ``tensor`` is known to be zero or one and the same."""

    def was_read_at(self, tensor: Any, dim: int | None, indices: Sequence[Any]) -> bool:
        """Return whether ``tensor`` was computed from what was read at ``indices``, and nothing else."""


class Services(msgspec.Struct, frozen=True):
    """The recorder's services for readers."""

    indices: KnownIndices
    is_coalesced: Callable[[Any], bool]
    indices_of: Callable[[Any], Any]
    """The indices of a sparse tensor, read without dispatching anything."""
    group_size: Callable[[Any], int | None]
    """The number of ranks in a process group, or in the group of that name."""
    is_torchs_own: Callable[[str], bool]
    """Whether a source file belongs to torch or the recorder."""


#: Takes an overload; returns the reader of its calls, or ``None`` if the overload lacks an argument that it needs.
Makes = Callable[[Any, Services], ArgumentReader | None]
#: The answer depends on the call.
ASK = object()


class Derivation(NamedTuple):
    """Computes a fact from a call's facts and its autograd node. The node is ``None`` outside the backward pass, and
    empty if it is unknown; a fact that needs it is then unknown too."""

    reads: tuple[str, ...]
    """The only recorded facts that it reads, besides the autograd node."""
    derive: Callable[[str | None, Mapping[str, Value]], bool | None]


class Fact(msgspec.Struct, frozen=True):
    """One property of a call that a condition may use."""

    key: str
    """Its key in conditions: ``shape.channels_last``."""
    domain: tuple[Value, ...]
    kind: Kind
    about: str
    """The question, in one sentence."""
    read: Makes | None = None
    """Returns a boolean for a noted or marked fact. ``None`` if the judge derives it, or every call has it."""
    on_plain: Any = ASK
    """Its value for calls whose tensors are all strided and not empty, if that is always the same."""
    of_forward: str = ""
    """For a derived fact that comes from the forward call: its key there."""
    derivation: Derivation | None = None
    """For a derived fact."""
    hangs_on_sizes: bool = False
    """Whether a step of other sizes (a longer batch, a larger table) may answer otherwise, though no line changes."""

    def reader(self, func: Any, services: Services) -> ArgumentReader | None:
        """The reader of this fact for calls of ``func``; it returns a value of ``domain``, or ``MISSING``."""
        read = None if self.read is None else self.read(func, services)
        if read is None or self.kind not in (Kind.NOTED, Kind.MARKED):
            return read
        return lambda args, kwargs: True if read(args, kwargs) else MISSING


def _boolean(kind: Kind, key: str, read: Makes, about: str, on_plain: Any = ASK, hangs_on_sizes: bool = False) -> Fact:
    return Fact(key, BOOL, kind, about, read, on_plain, hangs_on_sizes=hangs_on_sizes)


#: Boolean facts: recorded for ops whose rules use them; that may exempt a call; that may make one a finding.
asked_fact, noted_fact, marked = (partial(_boolean, kind) for kind in (Kind.ASKED, Kind.NOTED, Kind.MARKED))

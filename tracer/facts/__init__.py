"""A fact of a call that conditions use: its name, its values, and its reader. Domains are finite, so that the lint can
enumerate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any

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


def dropout_reader(func: Any, *further: str) -> ArgumentReader | None:
    """Return a reader of whether dropout is active: not at rate 0, nor in evaluation. ``further``: other rate names."""
    rate = argument_getter(func, "dropout_p", "dropout", *further)
    trains = argument_getter(func, "train", "training") or (lambda args, kwargs: True)
    if rate is None:
        return None
    return lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0 and trains(args, kwargs) is not False


def training_reader(func: Any) -> ArgumentReader | None:
    """Return a reader of whether an op that has no rate runs in training."""
    trains = argument_getter(func, "train", "training")
    return None if trains is None else lambda args, kwargs: bool(trains(args, kwargs))


def getters(func: Any, *names: str) -> list[Getter] | None:
    """A getter for each of ``names``, or ``None`` if ``func`` lacks one; ``self|input`` for either. What ends in ``?``
    may lack: its value is ``None``."""
    found: list[Getter] = []
    for name in names:
        get = argument_getter(func, *name.removesuffix("?").split("|"))
        if get is None and not name.endswith("?"):
            return None
        found.append(get or (lambda args, kwargs: None))
    return found


def of_arguments(names: str) -> Callable[[Callable[..., Any]], Makes]:
    """Turns a function of the values of these arguments, named as for ``getters`` and with spaces between, into a
    ``Makes``."""

    def decorate(question: Callable[..., Any]) -> Makes:
        def make(func: Any, services: object) -> ArgumentReader | None:
            values = getters(func, *names.split())
            if values is None:
                return None
            return lambda args, kwargs: question(*[get(args, kwargs) for get in values])

        return make

    return decorate


Value = bool | int | str
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


class Services(msgspec.Struct, frozen=True):
    """The recorder's services for readers."""

    indices: Any
    """The tensors that are known to hold distinct or whole numbers: ``recording.storage.known_numbers.Indices``."""
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


#: Computes a fact from a call's autograd node and facts. The node is ``None`` outside the backward pass, and empty if
#: it is unknown; a fact that needs it is then unknown too.
Derive = Callable[[str | None, Mapping[str, Value]], bool | None]


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
    derive: Derive | None = None
    """For a derived fact."""
    hangs_on_sizes: bool = False
    """Whether a step of other sizes (a longer batch, a larger table) may answer otherwise, though no line changes."""

    def reader(self, func: Any, services: Services) -> ArgumentReader | None:
        """The reader of this fact for calls of ``func``; it returns a value of ``domain``, or ``MISSING``."""
        read = None if self.read is None else self.read(func, services)
        if read is None or self.kind not in (Kind.NOTED, Kind.MARKED):
            return read
        return lambda args, kwargs: True if read(args, kwargs) else MISSING


#: The facts that are read, by key.
DECLARED: dict[str, Fact] = {}


def _declared(
    kind: Kind, key: str, about: str, arguments: str = "", *, domain: tuple[Value, ...] = BOOL, **columns: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a fact by the function that reads it: from the values of ``arguments``, or, without any, a ``Makes``."""

    def decorate(reads: Callable[..., Any]) -> Callable[..., Any]:
        if key in DECLARED:
            raise ValueError(f"{key} is declared twice")
        make = of_arguments(arguments)(reads) if arguments else reads
        DECLARED[key] = Fact(key, domain, kind, about, make, **columns)
        return reads

    return decorate


#: Decorators for facts that are recorded for ops whose rules use them; that may exempt a call; that may make one a
#: finding.
asked, noted, marked = (partial(_declared, kind) for kind in (Kind.ASKED, Kind.NOTED, Kind.MARKED))

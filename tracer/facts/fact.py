"""A fact: its name, its values, and what reads it. Domains are finite, so that the lint can enumerate them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from tracer.facts.argument_readers import MISSING, Args, Kwargs, Reader

Value = bool | int | str
Test = Callable[[Args, Kwargs], bool]
BOOL: tuple[Value, ...] = (False, True)


class Kind(Enum):
    """When a fact is recorded, and what its absence means."""

    COMMON = auto()
    """Of every call; an op without a tensor argument has ``none`` for each but ``device``."""
    ASKED = auto()
    """Of the ops whose rules ask for it. Absent: the verdict is ``unknown``, unless another key decides."""
    NOTED = auto()
    """Recorded where it holds, and speaks for a call: a trace that lacks it is judged as if it did not hold."""
    MARKED = auto()
    """Recorded where it holds, and may speak against a call: a trace that lacks it is judged as if it did not hold."""
    DERIVED = auto()
    """Worked out by the judge from what a call group says of itself; never missing."""
    PROCESS = auto()
    """Of the process, a generator or a loader: what rows of the table of settings ask."""


class DistinctNumbers(Protocol):
    """What is known of the numbers in a tensor."""

    @property
    def dim(self) -> int:
        """The dimension along which no number occurs twice."""

    @property
    def has_no_negative(self) -> bool:
        """Is no number negative?"""


class KnownIndices(Protocol):
    """The tensors that a recording knows to hold distinct numbers."""

    def of(self, tensor: Any) -> DistinctNumbers | None:
        """What is known of ``tensor``."""

    def distinct_along(self, tensor: Any, dim: int) -> bool:
        """Does no number occur twice along ``dim``?"""

    def are_zeros(self, tensor: Any) -> bool:
        """Does ``tensor`` hold zeros alone?"""


class Services(NamedTuple):
    """What readers ask of the recorder."""

    indices: KnownIndices
    is_coalesced: Callable[[Any], bool]
    indices_of: Callable[[Any], Any]
    """The indices of a sparse tensor, read without dispatching anything."""
    is_torchs_own: Callable[[str], bool]
    """Is a source file torch's or the recorder's?"""


#: Given an overload: what reads its calls, or ``None`` where the overload lacks what the question needs.
Makes = Callable[[Any, Services], Reader | None]
#: Stands for an answer that is not known before the call is read.
ASK = object()


class Fact(NamedTuple):
    """One thing that a condition may ask of a call."""

    key: str
    """What a condition calls it: ``shape.channels_last``."""
    domain: tuple[Value, ...]
    kind: Kind
    about: str
    """The question, in one sentence."""
    read: Makes | None = None
    """A noted or marked fact's gives whether it holds. ``None``: the judge derives it, or every call bears it."""
    on_plain: Any = ASK
    """What is read of a call whose tensors are all strided and have elements, where that is always the same."""
    of_forward: str = ""
    """A derived fact that its forward call tells: the key under which it does."""

    def reader(self, func: Any, services: Services) -> Reader | None:
        """What reads this fact of the calls of ``func``; its answers lie in ``domain``, or are ``MISSING``."""
        read = None if self.read is None else self.read(func, services)
        if read is None or self.kind not in (Kind.NOTED, Kind.MARKED):
            return read
        return lambda args, kwargs: True if read(args, kwargs) else MISSING


def asked(key: str, read: Makes, about: str, on_plain: Any = ASK) -> Fact:
    """A question that is read of the ops whose rules ask it."""
    return Fact(key, BOOL, Kind.ASKED, about, read, on_plain)


def noted_fact(key: str, read: Makes, about: str, on_plain: Any = ASK) -> Fact:
    """A question whose yes speaks for a call."""
    return Fact(key, BOOL, Kind.NOTED, about, read, on_plain)


def marked(key: str, read: Makes, about: str, on_plain: Any = ASK) -> Fact:
    """A question whose yes may speak against a call."""
    return Fact(key, BOOL, Kind.MARKED, about, read, on_plain)

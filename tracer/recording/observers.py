"""Observers of calls, each asked once per overload which calls it wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.facts import Args, Kwargs
from tracer.trace.records import Environment

if TYPE_CHECKING:
    from tracer.recording.calls.groups import CallCounter, OverloadInfo

Caller = FrameType | None
Interest = bool | Mapping[Any, Any]
"""``True``: every call. A mapping: the calls that are made while it holds anything. Nothing: no call."""


class Observer:
    """Told before and after each call that it wants. Where it fails, the program goes on."""

    reads_data = True
    """Whether it reads the values of tensors. Calls on fake tensors, which have none, reach it as ``not_computed``."""

    def start(self, environment: Environment) -> None:
        """Recording begins, in this environment."""

    def wants(self, info: OverloadInfo) -> Interest:
        """Return which calls of this overload it wants. Asked once, when the overload is first met."""
        raise NotImplementedError

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> Any:
        """A call is about to be made; what this returns is handed to ``after`` as ``begun``.

        ``counter`` is its group, already counted, or ``None`` for a call without tensor arguments, whose group depends
        on its result. ``asked`` are the facts of the call, in the order of ``info.readers``.
        """

    def after(
        self,
        begun: Any,
        info: OverloadInfo,
        counter: CallCounter,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        frame: Caller,
    ) -> None:
        """The call returned ``result``; ``frame`` is the innermost Python frame that made it, if any did."""

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        """A call on fake tensors is about to be made; observers that read values get no other notice."""

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        """Return what it adds to the group of ``counter`` in the trace, by field; empty without a result."""
        return {}


class Wanted(NamedTuple):
    """One observer of an overload, as the mode calls it."""

    before: Callable[..., Any] | None
    """``None``: it looks only once the call has returned."""
    after: Callable[..., None]
    interest: Interest
    reads_data: bool


def wanted_by(observers: Iterable[Observer], info: OverloadInfo) -> tuple[Wanted, ...]:
    """Ask each observer whether it wants calls of this overload. An empty mapping may fill later: it is an answer."""
    wanted = []
    for observer in observers:
        interest = observer.wants(info)
        if interest is not False:
            looks_before = type(observer).before is not Observer.before
            wanted.append(
                Wanted(observer.before if looks_before else None, observer.after, interest, observer.reads_data)
            )
    return tuple(wanted)


BegunObservers = list[tuple[Callable[..., None], Any]]
"""The functions to call when a call has returned, each with the result of its ``before``."""


def begin(
    wanted: Iterable[Wanted], info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
) -> BegunObservers:
    """Tell the observers that want this call that it is about to be made."""
    return [
        (after, None if before is None else before(info, counter, asked, args, kwargs))
        for before, after, interest, _ in wanted
        if interest
    ]


def end(
    begun: BegunObservers,
    info: OverloadInfo,
    counter: CallCounter,
    args: Args,
    kwargs: Kwargs,
    result: Any,
    frame: Caller,
) -> None:
    """Tell them that it returned, in the same order."""
    for after, token in begun:
        after(token, info, counter, args, kwargs, result, frame)

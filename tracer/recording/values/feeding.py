"""Batches of loaders, states of schedulers and scalers: torch's functions for them, watched."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from tracer.recording.patching import Call
from tracer.recording.watchers import Target, Watchers
from tracer.trace.values import ValueKind


class Feeding(Protocol):
    """Who wants to know."""

    def loader_iterates(self, call: Call) -> None:
        """A loader made an iterator."""

    def loader_gave(self, call: Call) -> None:
        """An iterator of a loader gave a batch."""

    def transports(self, begins: bool) -> None:
        """The process takes what a worker sends; when, and what for, is a matter of time."""

    def steps(self, kind: ValueKind, thing: Any) -> None:
        """A scheduler or a scaler moved on."""


def _transporting(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for listener in FEEDING.listeners:
        listener.transports(True)
    try:
        return inner(*args, **kwargs)
    finally:
        for listener in FEEDING.listeners:
            listener.transports(False)


def _functions() -> list[Target]:
    loading = sys.modules.get("torch.utils.data.dataloader")
    scheduling = sys.modules.get("torch.optim.lr_scheduler")
    scaling = sys.modules.get("torch.amp.grad_scaler")
    iterator, loader = (getattr(loading, name, None) for name in ("_BaseDataLoaderIter", "DataLoader"))
    several = getattr(loading, "_MultiProcessingDataLoaderIter", None)
    plateau, scheduler = (getattr(scheduling, name, None) for name in ("ReduceLROnPlateau", "LRScheduler"))
    scaler = getattr(scaling, "GradScaler", None)
    return [
        Target([(loader, "__iter__")], after=lambda to, call: to.loader_iterates(call)),
        Target([(iterator, "__next__")], after=lambda to, call: to.loader_gave(call)),
        Target([(several, "_try_get_data")], around=_transporting),
        Target(
            [(scheduler, "__init__"), (scheduler, "step"), (scheduler, "load_state_dict"), (plateau, "step")],
            before=lambda to, call: to.steps(ValueKind.SCHEDULER, call.first),
        ),
        Target(
            [(scaler, name) for name in ("step", "update", "load_state_dict")],
            before=lambda to, call: to.steps(ValueKind.SCALER, call.first),
        ),
    ]


#: The replacements of this process.
FEEDING: Watchers[Feeding] = Watchers(_functions)


class Weakly:
    """Objects that are held as long as they live elsewhere, each with a word."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], str]] = {}

    def add(self, thing: Any, word: str) -> None:
        """Remember ``thing``."""
        key = id(thing)
        self._held[key] = (weakref.ref(thing, lambda _: self._held.pop(key, None)), word)

    def word(self, thing: Any) -> str | None:
        """What was said of ``thing``."""
        entry = self._held.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else None

    def living(self) -> list[tuple[Any, str]]:
        """All that live still, in the order in which they came."""
        return [(thing, word) for reference, word in list(self._held.values()) if (thing := reference()) is not None]

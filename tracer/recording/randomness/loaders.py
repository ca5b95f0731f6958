"""Each iterated ``DataLoader``: where it was constructed, where its order and its workers' seeds come from.

Reading a loader draws nothing, starts nothing and keeps nothing alive. What its workers draw is not seen.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import MutableMapping
from types import FrameType, FunctionType
from typing import Any

import msgspec
import torch
from msgspec.structs import replace
from torch.utils.weak import WeakIdKeyDictionary

from tracer.names import SeedOrigin
from tracer.recording.origin import Site, Sites, placed, spell
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.randomness import own_generators
from tracer.recording.randomness.generators import SEEDS
from tracer.trace.records import Loader

#: Lines that iterate one loader, and data sets that wrap each other, as many as are looked at.
_MOST_LINES, _MOST_WRAPPERS = 8, 8


class _Place(msgspec.Struct, eq=False):
    site: Site
    own: Site
    iterations: int = 0
    sets_epoch: bool = False


class _Count(msgspec.Struct, eq=False):
    iterations: int = 0
    epoch_set: bool | None = None
    iterated_at: dict[str, None] = {}


class LoaderLog:
    """The loaders of one recording, grouped by the line that constructed them and by their configuration."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._places: MutableMapping[Any, _Place] = WeakIdKeyDictionary()
        """The loaders, and their distributed samplers, that are alive."""
        self._iterated: dict[Loader, _Count] = {}

    def start(self) -> None:
        _LOADERS.add(self)

    def stop(self) -> None:
        _LOADERS.discard(self)

    def listed(self) -> tuple[Loader, ...]:
        return tuple(
            replace(loader, iterations=each.iterations, epoch_set=each.epoch_set, iterated_at=tuple(each.iterated_at))
            for loader, each in self._iterated.items()
        )

    def iterates(self, frame: FrameType, loader: Any) -> None:
        """An iterator is being constructed; nothing has been drawn for it yet."""
        order = _order_of(loader)
        described = self._described(loader, order, self.place_of(loader, _caller(frame, loader)))
        count = self._iterated.setdefault(described, _Count())
        count.iterations += 1
        if len(count.iterated_at) < _MOST_LINES:
            count.iterated_at[spell(self._sites.users_own(frame))] = None
        if described.workers:
            for own in own_generators.WATCHERS.listeners:
                own.may_draw_elsewhere()
        if order.is_distributed:
            sampler = self.place_of(order.sampler, frame)
            sampler.iterations += 1
            if sampler.iterations > 1:
                count.epoch_set = bool(count.epoch_set or sampler.sets_epoch or _read(order.sampler, "epoch", 0))

    def _described(self, loader: Any, order: _Order, place: _Place) -> Loader:
        workers = _read(loader, "num_workers", 0)
        seeds_from = _read(loader, "generator", None)
        origin, seeded_at = base = self._provenance(seeds_from)
        if order.is_distributed:
            origin, seeded_at = SeedOrigin.PROGRAM if _read(order.sampler, "seed", 0) else SeedOrigin.FIXED, ""
        elif order.shuffles:
            origin, seeded_at = self._provenance(order.generator)
        has_other = (origin, seeded_at) != base
        method = ""
        if workers:  # asking must not fix the process's default, which the program may set later
            context = _read(loader, "multiprocessing_context", None) or multiprocessing
            method = context.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        fetches = _fetching(_read(loader, "dataset", None))
        return Loader(
            **placed(place.site, place.own),
            workers=workers,
            has_worker_init=_read(loader, "worker_init_fn", None) is not None,
            shuffles=order.shuffles,
            sampler=_class_of(order.sampler) if order.sampler is not None else "",
            has_generator=(order.generator if order.shuffles else seeds_from) is not None,
            origin=origin,
            seeded_at=seeded_at,
            workers_origin=base[0] if has_other else None,
            workers_have_generator=has_other and seeds_from is not None,
            in_order=bool(_read(loader, "in_order", True)),
            persistent_workers=bool(_read(loader, "persistent_workers", False)),
            start_method=method,
            fetched_by=fetches.__qualname__ if fetches is not None else "",
            fetched_at=spell(self._sites.resolve(fetches.__code__, 0)) if fetches is not None else "",
        )

    def _provenance(self, generator: torch.Generator | None) -> tuple[SeedOrigin, str]:
        """Return where the state of ``generator`` (or torch's default) came from, and the line that seeded it."""
        _, provenance, _ = SEEDS.default(torch.device("cpu")) if generator is None else SEEDS.passed(generator)
        return provenance.origin, spell(provenance.site)

    def place_of(self, thing: Any, frame: FrameType) -> _Place:
        if thing not in self._places:
            self._places[thing] = _Place(self._sites.innermost(frame), self._sites.users_own(frame))
        return self._places[thing]


class _Order(msgspec.Struct, frozen=True):
    sampler: Any
    """The sampler, or the batch sampler where that is not torch's own; ``None`` where the data set gives the order."""
    shuffles: bool = False
    is_distributed: bool = False
    generator: torch.Generator | None = None


def _order_of(loader: Any) -> _Order:
    """The source of the sample order. A class with an ``__iter__`` of its own may draw from anything: it does not count
    as shuffling, and its draws are seen only where they happen."""
    if isinstance(_read(loader, "dataset", None), _torch_class("dataset", "IterableDataset")):
        return _Order(None)
    sampler = _read(loader, "batch_sampler", None)
    if sampler is None:
        sampler = _read(loader, "sampler", None)
    elif _iterates_as(sampler, "sampler", "BatchSampler"):
        sampler = _read(sampler, "sampler", None)
    if any(_iterates_as(sampler, "sampler", name) for name in _DRAWING):
        return _Order(sampler, shuffles=True, generator=_read(sampler, "generator", None))
    if _iterates_as(sampler, "distributed", "DistributedSampler") and _read(sampler, "shuffle", False):
        return _Order(sampler, shuffles=True, is_distributed=True)
    return _Order(sampler)


def _class_of(sampler: Any) -> str:
    """The name of the sampler's class; of one that bears the name of a class of torch's, with its module."""
    own = type(sampler)
    is_torchs = getattr(sys.modules["torch.utils.data"], own.__qualname__, own) is own
    return own.__qualname__ if is_torchs else f"{own.__module__}.{own.__qualname__}"


_DRAWING = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


def _torch_class(module: str, name: str) -> Any:
    """A class of ``torch.utils.data``; an empty tuple, of which nothing is an instance, if it is not loaded."""
    return getattr(sys.modules.get(f"torch.utils.data.{module}"), name, ())


def _iterates_as(sampler: Any, module: str, name: str) -> bool:
    """Whether ``sampler`` orders samples as this torch class does."""
    inherited = getattr(_torch_class(module, name), "__iter__", None)
    return inherited is not None and getattr(type(sampler), "__iter__", None) is inherited


def _fetching(dataset: Any) -> FunctionType | None:
    """The program's own method that returns samples; torch's data sets may wrap the program's."""
    for _ in range(_MOST_WRAPPERS):
        for name in ("__getitems__", "__getitem__", "__iter__"):
            method = getattr(type(dataset), name, None)
            if isinstance(method, FunctionType) and not method.__module__.startswith("torch.utils.data"):
                return method
        dataset = _read(dataset, "dataset", None)
    return None


def _read(owner: Any, name: str, default: Any) -> Any:
    """An attribute; in a subclass it may be a property that raises."""
    try:
        return getattr(owner, name, default)
    except Exception:
        return default


def _caller(frame: FrameType, loader: Any) -> FrameType:
    """The frame that called a subclass's own ``__init__`` or ``__iter__``: the line that readers look for."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_name in ("__init__", "__iter__") and caller.f_code.co_argcount:
        if caller.f_locals.get(caller.f_code.co_varnames[0]) is not loader:
            break
        frame, caller = caller, caller.f_back
    return caller or frame


def _set_epoch(log: LoaderLog, call: WatchedCall) -> None:
    log.place_of(call.first, call.frame).sets_epoch = True


def _functions() -> list[WatchedFunction]:
    loader = _torch_class("dataloader", "DataLoader") or None
    sampler = _torch_class("distributed", "DistributedSampler") or None
    made = lambda log, call: log.place_of(call.first, _caller(call.frame, call.first))  # noqa: E731
    return [
        WatchedFunction([(loader, "__init__")], before=made),
        WatchedFunction([(loader, "__iter__")], before=lambda log, call: log.iterates(call.frame, call.first)),
        WatchedFunction([(sampler, "set_epoch")], before=_set_epoch),
    ]


_LOADERS: Watchers[LoaderLog] = Watchers(_functions)

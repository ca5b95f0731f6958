"""Loaders that ask for worker processes, in a run on fake tensors: their work is done in this process, unrecorded."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import _utils, dataloader

from tracer.recording.patching import Holder
from tracer.recording.torch_private import seams


def answers() -> Iterator[tuple[Holder, Callable[..., Any]]]:
    """Methods of loaders, and what answers for them. A worker is a fork, which would have the fake tensors' mode."""
    fetchers: weakref.WeakSet[Any] = weakref.WeakSet()
    """Those that would live in a worker."""

    def iterator(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        loader = args[0]
        workers, timeout = loader.num_workers, loader.timeout
        if not workers:
            return call(*args, **kwargs)
        loader.num_workers, loader.timeout = 0, 0
        try:
            alone = call(*args, **kwargs)
        finally:
            loader.num_workers, loader.timeout = workers, timeout
        alone._num_workers = workers  # the recorder says what it does not see
        fetchers.add(alone._dataset_fetcher)
        return alone

    def fetch(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args[0] not in fetchers:
            return call(*args, **kwargs)
        with seams.without_recording():
            return call(*args, **kwargs)

    yield (dataloader.DataLoader, "_get_iterator"), iterator
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        yield (getattr(_utils.fetch, name, None), "fetch"), fetch

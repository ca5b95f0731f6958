"""What a ``DataLoader`` does in this process, on the host: its seeds, the data set, its transforms, the collating."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from tracer.names import HostCode
from tracer.recording import patching
from tracer.recording.origin.modules import ModuleStack, Scope
from tracer.recording.origin.sites import NOWHERE

#: Where calls are made while a loader fetches, outside every module.
_FETCHING = Scope("", NOWHERE, is_module=False)
_FETCHING.host = HostCode.LOADER


def follow_loaders(modules: ModuleStack) -> Callable[[], None]:
    """Have ``modules`` say what a loader without workers fetches; returns what ends that.

    A module that the data set calls is left out: what it runs on is its own affair.
    """
    loading: Any = sys.modules.get("torch.utils.data.dataloader")
    iterator, loader = (getattr(loading, name, None) for name in ("_SingleProcessDataLoaderIter", "DataLoader"))
    holders = ((iterator, "_next_data"), (loader, "__iter__"))

    def fetching(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outside = modules.scope
        if outside.is_module or get_ident() != modules.thread:
            return inner(*args, **kwargs)
        modules.scope = _FETCHING
        try:
            return inner(*args, **kwargs)
        finally:
            if modules.scope is _FETCHING:
                modules.scope = outside

    found = [(owner, name) for owner, name in holders if hasattr(owner, name)]
    return patching.place(found, patching.Watch(around=fetching)) or (lambda: None)

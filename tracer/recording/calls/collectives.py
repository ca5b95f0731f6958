"""How many ranks take part in a collective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracer.facts.argument_readers import MISSING, Reader, argument_getter
from tracer.recording.torch_private import group_seams
from tracer.trace.records import GROUP_SIZE as GROUP_SIZE

_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")


def group_size_reader(func: Any) -> Reader | None:
    """A reader of the size of the process group of a call of ``func``; ``None`` if it takes none."""
    if getattr(func, "namespace", "") not in _NAMESPACES:
        return None
    group = argument_getter(func, "process_group", "group_name")
    if group is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        size = group_seams.size_of(group(args, kwargs))
        return MISSING if size is None else size

    return read

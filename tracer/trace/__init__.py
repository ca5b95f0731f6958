"""A trace: what was seen of a training step, as typed, frozen data with a versioned file format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracer.trace.file import Trace, load_trace, save_trace

if TYPE_CHECKING:
    from tracer.trace.decoded_once import load_traces
    from tracer.trace.differences import compare_draws, compare_ranks
    from tracer.trace.families import load_families
    from tracer.trace.merging import merge_traces

__all__ = [
    "Trace",
    "compare_draws",
    "compare_ranks",
    "load_families",
    "load_trace",
    "load_traces",
    "merge_traces",
    "save_trace",
]

#: What no recording needs, by its module; loaded when it is first used.
_HOMES = {
    "compare_draws": "differences",
    "compare_ranks": "differences",
    "load_families": "families",
    "load_traces": "decoded_once",
    "merge_traces": "merging",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

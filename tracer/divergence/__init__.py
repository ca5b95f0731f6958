"""Two recordings with values: where they diverge, the cause of each root, and what merely follows.

The names below are imported on first use: a run's process needs the causes before its script's first line, and must not
import NumPy there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracer.divergence.causes import RootCause
    from tracer.divergence.comparing import compare_recordings
    from tracer.divergence.model import Divergence, Root
    from tracer.divergence.recordings import Recording, has_values, read_recording
    from tracer.divergence.replicas import are_ranks, compare_replicas

_HOMES = {
    "causes": ("RootCause",),
    "comparing": ("compare_recordings",),
    "recordings": ("Recording", "has_values", "read_recording"),
    "replicas": ("are_ranks", "compare_replicas"),
}

__all__ = [
    "Divergence",
    "Recording",
    "Root",
    "RootCause",
    "are_ranks",
    "compare_recordings",
    "compare_replicas",
    "has_values",
    "read_recording",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "model")
    return getattr(import_module(f"{__name__}.{home}"), name)

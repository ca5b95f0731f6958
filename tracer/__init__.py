"""Record every op of a PyTorch training step and report which can make two runs differ.

Importing this package imports neither torch nor pandas: the names below load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tracer.errors import TracerError
    from tracer.findings import Finding, Tally
    from tracer.recording.options import Keep, Trials
    from tracer.report import Report
    from tracer.reproducing import reproducible
    from tracer.runner.configurations import compare
    from tracer.runner.repeated.function import repeat
    from tracer.session import DeterminismTracer, judge
    from tracer.trace import Trace
    from tracer.trace.differences import compare_draws
    from tracer.trace.records import CallGroup

_HOMES = {
    "tracer.errors": ("TracerError",),
    "tracer.findings": ("Finding", "Tally"),
    "tracer.recording.options": ("Keep", "Trials"),
    "tracer.report": ("Report",),
    "tracer.reproducing": ("reproducible",),
    "tracer.runner.configurations": ("compare",),
    "tracer.runner.repeated.function": ("repeat",),
    "tracer.session": ("DeterminismTracer", "judge"),
    "tracer.trace": ("Trace",),
    "tracer.trace.differences": ("compare_draws",),
    "tracer.trace.records": ("CallGroup",),
}

__all__ = [
    "CallGroup",
    "DeterminismTracer",
    "Finding",
    "Keep",
    "Report",
    "Tally",
    "Trace",
    "TracerError",
    "Trials",
    "__version__",
    "compare",
    "compare_draws",
    "judge",
    "repeat",
    "reproducible",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

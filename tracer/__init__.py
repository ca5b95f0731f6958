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
    from tracer.reproduction.reproducing import reproducible
    from tracer.runner.repeated.within.function import repeat
    from tracer.session import DeterminismTracer, judge
    from tracer.trace import Trace, compare_draws
    from tracer.trace.records import CallGroup

_HOMES = {
    "CallGroup": "tracer.trace.records",
    "DeterminismTracer": "tracer.session",
    "Finding": "tracer.findings",
    "Keep": "tracer.recording.options",
    "Report": "tracer.report",
    "Tally": "tracer.findings",
    "Trace": "tracer.trace",
    "TracerError": "tracer.errors",
    "Trials": "tracer.recording.options",
    "compare_draws": "tracer.trace",
    "judge": "tracer.session",
    "repeat": "tracer.runner.repeated.within.function",
    "reproducible": "tracer.reproduction.reproducing",
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
    "compare_draws",
    "judge",
    "repeat",
    "reproducible",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

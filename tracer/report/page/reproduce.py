"""The command that comes to the same judgement again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.findings import Target
    from tracer.report.view import ReportView


def command(report: ReportView, target: Target) -> str:
    """What to type (in Python, where settings were asked for by name) to judge the same trace for ``target``."""
    if target.sets:
        first = report.traces[0] if report.traces else "trace.json"
        strict = ", strict=True" if report.strict else ""
        return (
            f"judge(Trace.load({first!r}), backend={target.backend.value!r}, torch={target.torch!r}, "
            f"settings={dict(target.sets)!r}{strict})"
        )
    words = ["tracer", "report", *report.traces, "--backend", target.backend.value, "--torch", target.torch]
    words += ["--settings", target.settings.value, *(["--strict"] if report.strict else [])]
    return shlex.join(words)

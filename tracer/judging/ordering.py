"""The order of findings: worst first, and total, so that it depends on neither the trace's order nor the rules'."""

from __future__ import annotations

from tracer.findings import Finding
from tracer.names import SEVERITY
from tracer.trace.records import ORIGIN

_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}


def order_of(finding: Finding) -> tuple[object, ...]:
    """Worst first, then most calls; then by place and name, so that no two findings tie."""
    return (
        _RANK[finding.verdict],
        finding.refuted is None,
        finding.tried is None or not finding.tried.has_varied,
        _RANK[finding.deterministic_mode],
        -finding.count,
        finding.location,
        finding.op,
        finding.rule,
        finding.phase,
        finding.module,
        finding.function,
        finding.called_from,
        finding.backend,
        finding.reason_detail,
        finding.runs_as,
        finding.why,
        finding.remedy,
        str(finding.facts.get("device")),
        finding.subject,
        str(finding.facts.get(ORIGIN)),
        tuple(sorted(finding.sets)) if finding.sets else (),
        finding.planned or (),
    )

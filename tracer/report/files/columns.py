"""The columns that CSV and data frames share, and a finding's cells."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.findings import Finding, Judgement
from tracer.names import Backend

#: The header, exactly; other programs read it.
COLUMNS = (
    "backend",
    "torch",
    "rule",
    "op",
    "phase",
    "module",
    "location",
    "function",
    "called_from",
    "count",
    "verdict",
    "deterministic_mode",
    "cause",
    "remedy",
    "evidence",
)

Row = tuple[str, str, str, str, str, str, str, str, str, int, str, str, str, str, str]


def rows(judgement: Judgement) -> Iterator[Row]:
    """A row a finding, in the judgement's order; evidence is joined with ``"; "``."""
    torch = judgement.target.torch
    for finding in judgement.findings:
        yield (
            backend_of(finding, judgement).value,
            torch,
            finding.rule,
            finding.op,
            finding.phase.value,
            finding.module,
            finding.location,
            finding.function,
            finding.called_from,
            finding.count,
            finding.verdict.value,
            finding.deterministic_mode.value,
            finding.cause.value if finding.cause else "",
            finding.remedy,
            "; ".join(map(str, finding.evidence)),
        )


def backend_of(finding: Finding, judgement: Judgement) -> Backend:
    """The backend whose table judged ``finding``; the target's where the finding does not say."""
    return judgement.target.backend if finding.backend is Backend.RECORDED else finding.backend

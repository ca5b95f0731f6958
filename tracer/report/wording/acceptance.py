"""What a gate accepted, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracer.gate.baseline import Acceptance, AcceptedBy
from tracer.report.wording.words import plural

if TYPE_CHECKING:
    from tracer.report.view import ReportView

_BY: Mapping[AcceptedBy, str] = {
    AcceptedBy.BASELINE: "by the baseline",
    AcceptedBy.COMMENT: "by a comment in the code",
    AcceptedBy.SELECTION: "by what the gate was told to look at",
}


def accepted_in_words(acceptance: Acceptance) -> str:
    """``By the baseline: seen in review.``"""
    by = _BY[acceptance.by]
    return f"{by[0].upper()}{by[1:]}{': ' if acceptance.reason else ''}{acceptance.reason}"


def gate_in_words(report: ReportView) -> str:
    """How many of the findings a gate accepted, and what spoke for them; empty for a report behind no gate."""
    if report.accepted is None:
        return ""
    taken, left = len(report.accepted), len(report.findings) - len(report.accepted)
    counts = Counter(accepted.by for accepted in report.accepted)
    told = ", ".join(f"{counts[by]:,} {words}" for by, words in _BY.items() if counts[by])
    aside = f" ({told})" if told else ""
    looked = f"A gate has looked at this report: {plural(taken, 'finding is', 'findings are')} accepted"
    return f"{looked}{aside}, {plural(left, 'is', 'are')} not."

"""What a gate accepted, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import finding, report
from tracer.findings import Acceptance
from tracer.names import AcceptedBy
from tracer.report.sections.findings import accepted_in_words, gate_in_words


@pytest.mark.parametrize(
    ("by", "reason", "said"),
    [
        (AcceptedBy.BASELINE, "", "By the baseline"),
        (AcceptedBy.COMMENT, "seen", "By a comment in the code: seen"),
        (AcceptedBy.SELECTION, "", "By what the gate was told to look at"),
    ],
)
def test_an_acceptance_says_what_spoke_for_it(by: AcceptedBy, reason: str, said: str) -> None:
    assert accepted_in_words(Acceptance(finding=0, by=by, reason=reason)) == said


def test_a_gates_sentence_counts_what_is_left_and_what_spoke_for_the_rest() -> None:
    made = report(finding(), finding(location="b.py:2"))
    assert gate_in_words(made) == ""
    made = replace(made, accepted=())
    assert gate_in_words(made) == "A gate has looked at this report: 0 findings are accepted, 2 are not."
    made = replace(made, accepted=(Acceptance(finding=1, by=AcceptedBy.BASELINE),))
    assert gate_in_words(made) == (
        "A gate has looked at this report: 1 finding is accepted (1 by the baseline), 1 is not."
    )

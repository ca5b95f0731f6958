"""The conditions that decided a verdict are those of the rule's case that the recorded facts meet."""

from __future__ import annotations

import msgspec
import pytest

from tests.build import call, finding, judgement, process_finding, trace
from tracer import judge
from tracer.findings import Finding
from tracer.report.deciding import Deciding


def judged(op: str, **fields: object) -> tuple[Deciding, Finding]:
    made = judge(trace(call(op, **fields)), backend="cuda", settings="default")
    return Deciding(made.judgement), next(one for one in made.findings if one.op == op)


def test_each_verdict_has_the_case_it_came_from() -> None:
    facts = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}
    deciding, one = judged("aten.nll_loss2d_forward.default", facts=facts)
    as_is, mode_on = deciding.words(one).split("\n")
    assert as_is.startswith("As the settings stand: ")
    assert "deterministic_mode: off or warn" in as_is
    assert "deterministic_mode: on" in mode_on


def test_what_cannot_be_found_again_is_not_claimed() -> None:
    deciding, one = judged("aten.index_add_.default", facts={"device": "cuda", "dtype": "float32"})
    assert deciding.words(one)
    for change in ({"verdict": "raises"}, {"rule": "cuda-of-another-time"}):
        other = msgspec.convert(msgspec.to_builtins(one) | change, type=Finding)
        assert "As the settings stand" not in deciding.words(other)
    assert deciding.words(process_finding()) == ""


@pytest.mark.parametrize("rule", ["<script>", "", "cuda-opaque"])
def test_a_rule_that_no_table_has_decides_nothing(rule: str) -> None:
    one = finding(rule)
    assert Deciding(judgement(one)).words(one) == ""

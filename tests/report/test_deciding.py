"""The conditions that decided a verdict travel with it, from the table's case to the finding's words."""

from __future__ import annotations

import pytest

from tests.support.build import call, environment, finding, trace
from tracer import Report, judge
from tracer.findings import Condition, Finding
from tracer.names import About
from tracer.report.finding_columns import deciding_words

NLL = "aten.nll_loss2d_forward.default"
FACTS = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}


def judged(*calls: object) -> Report:
    return judge(trace(*calls), backend="cuda", settings="default")


def of(op: str, report: Report) -> Finding:
    return next(one for one in report.findings if one.op == op)


def test_each_verdict_has_the_case_it_came_from() -> None:
    one = of(NLL, judged(call(NLL, facts=FACTS)))
    (case,) = one.decided.as_is
    assert Condition("deterministic_mode", ("off", "warn")) in case
    as_is, in_mode = deciding_words(one.decided).split("\n")
    assert as_is.startswith("As the settings stand: ")
    assert "deterministic_mode: off or warn" in as_is
    assert in_mode.startswith("In deterministic mode: ")
    assert "deterministic_mode: on" in in_mode


def test_a_missing_fact_that_leaves_the_verdict_open_names_no_case() -> None:
    facts = {key: value for key, value in FACTS.items() if key != "arg.reduction"}
    one = of(NLL, judged(call(NLL, facts=facts)))
    assert one.verdict == "unknown"
    assert one.decided.as_is == ()
    assert "As the settings stand" not in deciding_words(one.decided)


def test_calls_that_met_several_cases_and_say_the_same_are_one_finding_with_each_case() -> None:
    several = [call(NLL, facts={**FACTS, "arg.reduction": reduction}) for reduction in ("mean", "sum")]
    report = judged(*several)
    assert len([one for one in report.findings if one.op == NLL]) == 1
    assert len(of(NLL, report).decided.as_is) == 1  # mean and sum are one case


def test_a_draw_that_the_machine_seeded_is_decided_by_no_case() -> None:
    drawn = {"device": "cuda", "rng.generator": "cuda:0", "rng.origin": "machine"}
    one = of("aten.bernoulli_.float", judged(call("aten.bernoulli_.float", facts=drawn)))
    assert (one.verdict, deciding_words(one.decided)) == ("nondeterministic", "")


def test_of_the_process_the_row_s_case_decides() -> None:
    convolution = call("aten.convolution.default", facts={"device": "cuda", "dtype": "float32"})
    held = environment(cudnn_enabled=True, cudnn_deterministic=False, cudnn_benchmark=False)
    made = judge(trace(convolution, environment=held), backend="cuda")
    told = {one.rule: deciding_words(one.decided) for one in made.findings if one.about is About.SETTING}
    assert told["environment-deterministic-mode"].splitlines()[0] == "As the settings stand: value: unset"
    assert "deterministic_mode: off" in told["environment-cudnn-deterministic"]
    assert all(told.values())


@pytest.mark.parametrize("rule", ["<script>", "", "cuda-opaque"])
def test_a_finding_without_a_rule_is_decided_by_nothing(rule: str) -> None:
    assert deciding_words(finding(rule).decided) == ""


def test_every_format_that_programs_read_can_tell_what_decided() -> None:
    report = judged(call(NLL, facts=FACTS))
    assert "deterministic_mode: off or warn" in report.to_html()
    assert '"asks": "deterministic_mode"' in report.to_json()

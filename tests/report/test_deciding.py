"""The conditions that decided a verdict are those of the rule's case that the recorded facts meet."""

from __future__ import annotations

import msgspec
import pytest

from tests.build import call, environment, finding, judgement, trace
from tracer import judge
from tracer.findings import Finding
from tracer.names import About
from tracer.report.wording.deciding import Deciding


def judged(op: str, **fields: object) -> tuple[Deciding, Finding]:
    made = judge(trace(call(op, **fields)), backend="cuda", settings="default")
    return Deciding(made.judgement), next(one for one in made.findings if one.op == op)


def test_each_verdict_has_the_case_it_came_from() -> None:
    facts = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}
    deciding, one = judged("aten.nll_loss2d_forward.default", facts=facts)
    as_is, in_mode = deciding.words(one).split("\n")
    assert as_is.startswith("As the settings stand: ")
    assert "deterministic_mode: off or warn" in as_is
    assert "deterministic_mode: on" in in_mode


def test_what_cannot_be_found_again_is_not_claimed() -> None:
    deciding, one = judged("aten.index_add_.default", facts={"device": "cuda", "dtype": "float32"})
    assert deciding.words(one)
    for change in ({"verdict": "raises"}, {"rule": "cuda-of-another-time"}):
        other = msgspec.convert(msgspec.to_builtins(one) | change, type=Finding)
        assert "As the settings stand" not in deciding.words(other)


def test_of_the_process_the_settings_as_they_stand_decide() -> None:
    convolution = call("aten.convolution.default", facts={"device": "cuda", "dtype": "float32"})
    held = environment(cudnn_enabled=True, cudnn_deterministic=False, cudnn_benchmark=False)
    made = judge(trace(convolution, environment=held), backend="cuda")
    deciding = Deciding(made.judgement)
    told = {one.rule: deciding.words(one) for one in made.findings if one.about is About.SETTING}
    assert told["environment-deterministic-mode"] == "As the settings stand: value: unset"
    assert "deterministic_mode: off" in told["environment-cudnn-deterministic"]
    assert all(told.values())


@pytest.mark.parametrize(
    "changed", [{"rule": "environment-of-another-time"}, {"verdict": "raises"}, {"about": "memory"}, {"facts": {}}]
)
def test_of_the_process_too_nothing_is_claimed_that_does_not_decide(changed: dict[str, object]) -> None:
    held = environment(cudnn_enabled=True, cudnn_deterministic=False)
    made = judge(trace(call("aten.convolution.default", facts={"device": "cuda"}), environment=held), backend="cuda")
    one = next(one for one in made.findings if one.rule == "environment-cudnn-deterministic")
    other = msgspec.convert(msgspec.to_builtins(one) | changed, type=Finding)
    assert Deciding(made.judgement).words(other) == ""


@pytest.mark.parametrize("rule", ["<script>", "", "cuda-opaque"])
def test_a_rule_that_no_table_has_decides_nothing(rule: str) -> None:
    one = finding(rule)
    assert Deciding(judgement(one)).words(one) == ""

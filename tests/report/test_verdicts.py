"""What decided a verdict travels with it to the finding's words; what a CPU alone has is named, by what runs there."""

from __future__ import annotations

import re

import pytest

from tests.support.build import call, environment, finding, trace
from tracer import Report, judge
from tracer.findings import Condition, Finding
from tracer.names import About
from tracer.ops import rows
from tracer.plan import op_of
from tracer.report import rendered_as
from tracer.report.finding_columns import deciding_words
from tracer.report.words import subject_of
from tracer.trace.records import CallGroup

FACTS_OF_CPU = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 4}

NAMED = {row.name: row.on_cpu_for for row in rows() if row.on_cpu_for}

#: Calls that choose no kernel: whoever wrote them wrote this name.
OWN = {name for name, public in NAMED.items() if public.endswith(name)}

ELSEWHERE = ["cuda", "rocm", "xpu", "mps", "npu"]


def recorded(name: str) -> CallGroup:
    space = "mkldnn" if "pointwise" in name else "aten"
    backward = {"phase": "backward", "node": "FBackward0"} if "backward" in name else {}
    return call(f"{space}.{name}.default", facts=FACTS_OF_CPU, **backward)


def judged(backend: str, *names: str, torch: str = "2.13.0") -> Report:
    return judge(trace(*map(recorded, names), environment=environment(num_threads=8)), backend=backend, torch=torch)


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("name", NAMED)
def test_no_op_of_a_cpu_alone_is_held_for_safe_elsewhere_under_its_own_name(name: str, backend: str) -> None:
    for torch in ("2.13.0", "1.11.0"):
        for found in judged(backend, name, torch=torch).findings:
            assert found.runs_as or not found.op, torch
            assert name in OWN or name not in f"{subject_of(found)} {found.ops} {found.reason_detail}"
    at_home = judged("cpu", name)
    assert {found.runs_as for found in at_home.findings} <= {""}


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("name", [name for name in NAMED if "mkldnn_" in name and "conv" not in name])
def test_an_op_that_the_target_lacks_is_unknown_there(name: str, backend: str) -> None:
    if "rnn" in name and backend in ("cuda", "rocm"):
        assert all(finding.runs_as.startswith("aten.") for finding in judged(backend, name).findings if finding.op)
        return
    (finding,) = (finding for finding in judged(backend, name).findings if finding.op)
    assert (finding.verdict, finding.deterministic_mode) == ("unknown", "unknown")


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("settings", ["default", "deterministic"])
def test_no_format_that_people_read_names_an_op_of_the_cpu(backend: str, settings: str) -> None:
    chosen = [name for name in NAMED if name not in OWN]
    report = judge(trace(*map(recorded, chosen)), backend=backend, settings=settings)
    shown = {name: rendered_as(name, report) for name in ("text", "html", "markdown", "sarif", "junit")}
    shown["whole"] = report.to_text(width=200, color=False, limit=None)
    names = re.compile(rf"\b(?:aten|mkldnn)\.(?:{'|'.join(map(re.escape, chosen))})\b")
    assert {name: names.findall(text.replace("<wbr>", "").replace("\\", "")) for name, text in shown.items()} == {
        name: [] for name in shown
    }
    assert names.search(" ".join(change.title + change.where + change.remedy for change in report.plan)) is None


def test_the_recorded_name_stays_in_files_for_programs() -> None:
    report = judged("cuda", "_scaled_dot_product_flash_attention_for_cpu_backward")
    (finding,) = (finding for finding in report.findings if finding.op)
    assert "_for_cpu" in finding.op
    assert "_for_cpu" not in op_of(finding)
    assert "_for_cpu_backward" in report.to_csv()


NLL = "aten.nll_loss2d_forward.default"

FACTS = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}


def judged_with(*calls: object) -> Report:
    return judge(trace(*calls), backend="cuda", settings="default")


def of(op: str, report: Report) -> Finding:
    return next(one for one in report.findings if one.op == op)


def test_each_verdict_has_the_case_it_came_from() -> None:
    report = judged_with(call(NLL, facts=FACTS))
    assert "deterministic_mode: off or warn" in report.to_html()
    assert '"asks": "deterministic_mode"' in report.to_json()
    one = of(NLL, report)
    (case,) = one.decided.as_is
    assert Condition("deterministic_mode", ("off", "warn")) in case
    as_is, in_mode = deciding_words(one.decided).split("\n")
    assert as_is.startswith("As the settings stand: ")
    assert "deterministic_mode: off or warn" in as_is
    assert in_mode.startswith("In deterministic mode: ")
    assert "deterministic_mode: on" in in_mode


def test_a_missing_fact_that_leaves_the_verdict_open_names_no_case() -> None:
    facts = {key: value for key, value in FACTS.items() if key != "arg.reduction"}
    one = of(NLL, judged_with(call(NLL, facts=facts)))
    assert one.verdict == "unknown"
    assert one.decided.as_is == ()
    assert "As the settings stand" not in deciding_words(one.decided)


def test_calls_that_met_several_cases_and_say_the_same_are_one_finding_with_each_case() -> None:
    several = [call(NLL, facts={**FACTS, "arg.reduction": reduction}) for reduction in ("mean", "sum")]
    report = judged_with(*several)
    assert len([one for one in report.findings if one.op == NLL]) == 1
    assert len(of(NLL, report).decided.as_is) == 1  # mean and sum are one case


def test_a_draw_that_the_machine_seeded_is_decided_by_no_case() -> None:
    drawn = {"device": "cuda", "rng.generator": "cuda:0", "rng.origin": "machine"}
    one = of("aten.bernoulli_.float", judged_with(call("aten.bernoulli_.float", facts=drawn)))
    assert (one.verdict, deciding_words(one.decided)) == ("nondeterministic", "")


def test_of_the_process_the_row_s_case_decides() -> None:
    convolution = call("aten.convolution.default", facts={"device": "cuda", "dtype": "float32"})
    held = environment(cudnn_enabled=True, cudnn_deterministic=False, cudnn_benchmark=False)
    made = judge(trace(convolution, environment=held), backend="cuda")
    told = {one.rule: deciding_words(one.decided) for one in made.findings if one.about is About.SETTING}
    assert told["environment-deterministic-mode"].splitlines()[0] == "As the settings stand: value: unset"
    assert "deterministic_mode: off" in told["environment-cudnn-deterministic"]
    assert all(told.values())


def test_a_finding_without_a_rule_is_decided_by_nothing() -> None:
    assert deciding_words(finding("cuda-opaque").decided) == ""

"""What running a compiled region again makes of its calls and of the verdict: evidence, suspects, and a finding."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import call, environment, region, trace
from tracer.findings import Finding
from tracer.names import About, DeterministicMode, EvidenceKind, Untried, Verdict
from tracer.report import Report
from tracer.session import judge
from tracer.trace.merging import merge_traces
from tracer.trace.records import Tried

FACTS = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}
RACES = {**FACTS, "arg.accumulate": True, "index.is_mask": False}


def tried(varied: int, together: int) -> Tried:
    made: dict[str, Any] = {"distinct": 2, "first": 1, "relative": 1e-7} if varied else {"distinct": 1}
    return Tried(calls=2, trials=10, varied=varied, together=together, **made)


def index_put(seen: Tried | None, **fields: Any) -> Any:
    return call(
        "aten.index_put.default",
        facts=RACES,
        region="0/0 forward",
        kernels=("cpp_fused_index_add_0",),
        count=2,
        tried=seen,
        **fields,
    )


def judged(seen: Tried | None, *calls: Any, backend: str = "cpu", settings: Any = "recorded", **fields: Any) -> Report:
    ran = region(tried=seen, executions=2, deterministic_mode=DeterministicMode.OFF, **fields)
    made = trace(*calls, regions=(ran,), environment=environment(num_threads=2))
    return judge(made, backend=backend, settings=settings)


def of_regions(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.about is About.COMPILED]


def of_calls(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.about is About.CALL]


def test_the_one_call_of_a_region_that_may_vary_bears_what_its_region_showed() -> None:
    seen = tried(4, 1)
    report = judged(seen, index_put(seen))
    (found,) = of_calls(report)
    assert found.verdict is Verdict.NONDETERMINISTIC
    assert found.evidence[0].kind is EvidenceKind.TRIED
    assert found.evidence[0].ref.startswith(
        "varied in 4 of 10 trials of 2 executions of its compiled region, in which nothing else is known to vary"
    )
    assert found.evidence[1].kind is EvidenceKind.GENERATED
    assert of_regions(report) == []
    assert report.plan[0].seen > 0


def test_of_several_that_may_vary_each_is_told_that_the_region_did_and_none_is_said_to_have() -> None:
    seen = tried(4, 2)
    unknown = call("mine.op.default", facts=FACTS, region="0/0 forward", tried=seen)
    report = judged(seen, index_put(seen), unknown)
    found = {one.op: one for one in of_calls(report)}
    assert found["mine.op.default"].verdict is Verdict.UNKNOWN
    assert "in which 2 groups of calls may vary" in found["mine.op.default"].evidence[0].ref
    assert of_regions(report) == []
    assert [change.seen for change in report.plan] == [0] * len(report.plan)
    (banner,) = (one for one in report.banners if one.startswith("Compiled region"))
    assert banner == (
        "Compiled region 0/0 forward (train.py:8) varied in 4 of 10 trials; 2 groups of its calls may vary, and which"
        " of them did is not known. Suspected: cpp_fused_index_add_0, which adds atomically."
    )


def test_trials_of_a_region_are_counted_once_whatever_its_calls() -> None:
    seen = tried(0, 2)
    report = judged(seen, index_put(seen), index_put(seen, location="train.py:11"))
    (banner,) = (one for one in report.banners if one.startswith("Trials: "))
    assert banner == "Trials: 2 calls were replayed, 10 times in all: all agreed, which proves nothing."
    assert {one.evidence[0].ref for one in of_calls(report)} == {
        "agreed in 10 trials of 2 executions of its compiled region, in which 2 groups of calls may vary"
    }


def test_a_region_that_varied_though_nothing_in_it_is_known_to_is_a_finding_and_never_clean() -> None:
    report = judged(tried(4, 0), call("aten.mm.default", facts=FACTS, region="0/0 forward"), kernels=())
    (found,) = of_regions(report)
    assert (found.verdict, found.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.UNKNOWN)
    assert found.evidence[0].kind is EvidenceKind.TRIED
    assert found.location == "train.py:8"
    assert found.planned is None or Verdict.DETERMINISTIC not in found.planned
    assert of_calls(report) == []
    text = report.to_text(width=200, color=False)
    assert "varied in 4 of 10 trials, although nothing in it is known to vary. Please report it." in text
    assert "No risk found" not in text
    assert "run again, it varied in 4 of 10 trials" in report.to_html()
    assert "tried" in report.to_csv()


def test_under_another_mode_other_code_would_run_of_which_its_trials_say_nothing() -> None:
    mm = call("aten.mm.default", facts=FACTS, region="0/0 forward")
    (found,) = of_regions(judged(tried(4, 0), mm, kernels=(), settings="deterministic"))
    assert (found.verdict, found.deterministic_mode) == (Verdict.UNKNOWN, Verdict.UNKNOWN)


@pytest.mark.parametrize("backend", ["cuda", "rocm"])
def test_trials_of_a_region_say_nothing_of_another_device(backend: str) -> None:
    mm = call("aten.mm.default", facts=FACTS, region="0/0 forward")
    report = judged(tried(4, 0), mm, kernels=(), backend=backend)
    assert of_regions(report) == []
    assert any("another device or torch" in banner for banner in report.banners)
    assert not any(banner.startswith("Compiled region") for banner in report.banners)


def test_two_recordings_of_a_region_are_one_and_their_trials_add_up() -> None:
    ran = region(tried=tried(4, 0), executions=2)
    other = region(tried=Tried(untried={Untried.MEMORY: 3}), executions=3)
    whole = merge_traces([trace(regions=(ran,)), trace(regions=(other,))])
    (one,) = whole.regions
    assert one.executions == 5
    assert one.tried is not None
    assert (one.tried.trials, one.tried.varied, one.tried.untried) == (10, 4, {Untried.MEMORY: 3})

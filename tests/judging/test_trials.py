"""What trials of calls make of the tables' verdicts, and of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import call, environment, trace
from tracer.findings import Finding
from tracer.names import About, Cause, DataShown, DeterministicMode, EvidenceKind, Untried, Verdict
from tracer.report import Report
from tracer.session import judge
from tracer.trace.records import Tried

RACES = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 1, "arg.accumulate": True}

RACES |= {"index.is_mask": False, "index.one_value": False, "shape.numel_ge_32768": True}

ON_CUDA = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2}


def tried(trials: int, varied: int, **fields: Any) -> Tried:
    return Tried(calls=1, trials=trials, varied=varied, distinct=1 + bool(varied), first=bool(varied), **fields)


def judged(*calls: Any, backend: str = "recorded", settings: Any = "recorded", **env: Any) -> Report:
    return judge(trace(*calls, environment=environment(**env)), backend=backend, settings=settings)


def of_calls(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.about is About.CALL]


def mm(**fields: Any) -> Any:
    return call(
        "aten.mm.default", facts={"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}, **fields
    )


def index_add(**fields: Any) -> Any:
    return call("aten.index_add_.default", facts=ON_CUDA, **fields)


def test_what_varied_is_nondeterministic_though_the_table_calls_it_deterministic_and_that_stands_first() -> None:
    report = judged(mm(tried=tried(5, 3, relative=1e-7)), index_add())
    found = report.findings[0]
    assert found.op == "aten.mm.default"
    assert (found.verdict, found.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.NONDETERMINISTIC)
    assert found.refuted is Verdict.DETERMINISTIC
    assert found.rule == "cpu-tried"
    assert found.evidence[0].kind is EvidenceKind.TRIED
    assert found.evidence[0].ref.startswith("varied in 3 of 5 trials of 1 call: 2 results of one call, up to 1e-07 ")
    assert report.banners[0].startswith("The table is wrong for this device: aten.mm.default varied")
    assert report.tally[Verdict.NONDETERMINISTIC] == 2


def test_no_setting_is_planned_for_what_no_table_explains() -> None:
    report = judged(mm(tried=tried(5, 3)))
    assert report.judgement.planned == {}
    assert report.judgement.findings[0].planned is None
    on = judged(mm(tried=tried(5, 3)), settings={"deterministic_mode": "on"})
    assert of_calls(on)[0].verdict is Verdict.NONDETERMINISTIC


def test_what_agreed_keeps_its_verdict_and_says_how_often_it_was_tried() -> None:
    (found,) = of_calls(judged(call("aten.index_put_.default", facts=RACES, tried=tried(40, 0))))
    (alone,) = of_calls(judged(call("aten.index_put_.default", facts=RACES)))
    assert found.verdict is alone.verdict
    assert found.evidence[0].ref == "agreed in 40 trials of 1 call"
    assert found.evidence[1:] == alone.evidence


def test_a_conditional_call_that_varied_is_nondeterministic_and_the_mode_still_mends_it() -> None:
    facts = {**RACES, "arg.accumulate": False, "shape.numel_ge_32768": True}
    (before,) = of_calls(judged(call("aten.index_put_.default", facts=facts), num_threads=2))
    (after,) = of_calls(judged(call("aten.index_put_.default", facts=facts, tried=tried(5, 1)), num_threads=2))
    assert before.verdict is Verdict.CONDITIONAL
    assert after.verdict is Verdict.NONDETERMINISTIC
    assert after.deterministic_mode is before.deterministic_mode
    assert after.refuted is None


def test_an_unknown_op_that_varied_is_nondeterministic_and_stays_unknown_in_the_mode() -> None:
    (found,) = of_calls(judged(call("mine.race.default", tried=tried(5, 5))))
    assert (found.verdict, found.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.UNKNOWN)


def test_what_varied_in_deterministic_mode_refutes_what_the_mode_promises() -> None:
    group = index_add(tried=tried(5, 2))
    report = judged(group, deterministic_mode=DeterministicMode.ON)
    assert report.findings[0].refuted is Verdict.DETERMINISTIC
    assert report.findings[0].deterministic_mode is Verdict.NONDETERMINISTIC


@pytest.mark.parametrize("target", [{"backend": "cuda"}, {"torch": "2.6"}])
def test_trials_on_one_device_and_torch_say_nothing_of_another(target: dict[str, str]) -> None:
    report = judge(trace(mm(tried=tried(5, 3))), **target)
    assert not of_calls(report)
    assert any("another device or torch" in banner for banner in report.banners)


def test_every_call_is_counted_once_whatever_was_tried() -> None:
    report = judged(mm(count=7, tried=tried(5, 3)), index_add(count=2, data={DataShown.DISTINCT: 2}), mm(module="b"))
    assert report.tally.total == 10


def test_calls_whose_data_leave_no_two_ways_are_deterministic_for_these_data_and_listed_apart() -> None:
    report = judged(index_add(count=3, data={DataShown.DISTINCT: 2, DataShown.EXACT: 1}))
    assert not of_calls(report)
    assert report.tally[Verdict.DETERMINISTIC] == 3
    (found,) = report.judgement.observed
    assert found.rule == "cuda-index-add"
    assert found.verdict is Verdict.DETERMINISTIC
    assert found.evidence[0].kind is EvidenceKind.OBSERVED
    assert "for these data" in found.why
    assert any("deterministic only for the data of this run" in banner for banner in report.banners)
    assert sum(report.judgement.unnamed.values()) == 0


@pytest.mark.parametrize(
    "data",
    [
        {DataShown.DISTINCT: 2, DataShown.DUPLICATES: 1},
        {DataShown.DISTINCT: 2},  # one call was not looked at
        {DataShown.NO_TIES: 3},  # rules out ties, not additions
        {DataShown.DISTINCT: 2, DataShown.UNREAD: 1},
    ],
)
def test_one_call_that_data_do_not_settle_keeps_the_group(data: dict[DataShown, int]) -> None:
    report = judged(index_add(count=3, data=data))
    assert of_calls(report)[0].verdict is Verdict.NONDETERMINISTIC
    assert report.judgement.observed == ()


def test_what_deterministic_mode_refuses_it_refuses_whatever_the_data() -> None:
    facts = {**ON_CUDA, "arg.accumulate": True, "index.one_value": False}
    (found,) = of_calls(judged(call("aten.put_.default", facts=facts, data={DataShown.DISTINCT: 1})))
    assert (found.verdict, found.deterministic_mode) == (Verdict.DETERMINISTIC, Verdict.RAISES)


def test_data_that_were_recorded_on_a_cpu_settle_calls_judged_for_another_device() -> None:
    facts = {**ON_CUDA, "device": "cpu"}
    settled = judged(call("aten.index_add_.default", facts=facts, data={DataShown.DISTINCT: 1}), backend="cuda")
    accused = judged(call("aten.index_add_.default", facts=facts), backend="cuda")
    assert of_calls(accused)[0].cause is Cause.ATOMIC_ACCUMULATION
    assert not of_calls(settled)


def test_trials_outweigh_data() -> None:
    (found,) = of_calls(judged(index_add(data={DataShown.DISTINCT: 1}, tried=tried(5, 1))))
    assert found.verdict is Verdict.NONDETERMINISTIC


def test_the_reader_is_told_what_was_not_tried() -> None:
    group = mm(tried=Tried(untried={Untried.RARER: 30, Untried.MEMORY: 2}))
    (banner,) = (one for one in judged(group).banners if one.startswith("Trials: "))
    assert "Not tried: 2 too large for --trial-memory, 30 of groups that had been tried before." in banner

"""How much the tables leave open: the targets hold on real steps, and the benchmark counts what it says."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.evidence.record_steps import FOLDER
from benchmarks.evidence.unknown import (
    AT_MOST,
    UNKNOWN_AT_MOST,
    WHOLE_STEPS,
    Ground,
    Share,
    golden_steps,
    main,
    meets_its_target,
    operator_samples,
    overloads_by_ground,
    share_of,
)
from tests.support.build import call, trace
from tracer import Trace
from tracer.names import Backend

FACTS = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}


@pytest.fixture(scope="module")
def steps() -> list[Trace]:
    return list(golden_steps().values())


@pytest.mark.parametrize("backend", AT_MOST, ids=str)
def test_of_the_recorded_steps_no_more_is_unknown_than_the_target_allows(backend: Backend, steps: list[Trace]) -> None:
    share = share_of(steps, backend)
    assert share.calls == sum(step.call_count for step in steps)
    assert share.percent < AT_MOST[backend][0], share.ops.most_common(10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_of_the_operator_database_no_more_is_unknown_than_the_target_allows() -> None:
    recorded = operator_samples(2)
    for backend, (_, at_most) in AT_MOST.items():
        share = share_of([recorded], backend)
        assert share.calls > 20_000
        assert share.percent < at_most, (backend, share.ops.most_common(10))


def test_a_call_is_unknown_that_only_one_state_of_the_mode_leaves_open() -> None:
    open_by_default = call("aten.baddbmm.default", count=3, facts=FACTS)
    share = share_of([trace(open_by_default, call("aten.mul.Tensor", count=5, facts=FACTS))], Backend.NPU)
    assert share == Share(calls=8, unknown=3, mode_on=0, ops=Counter({"aten.baddbmm.default": 3}))
    assert share.percent == 37.5


def test_the_command_prints_every_backend_and_says_by_its_exit_code_that_all_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--golden", "--leading", "1"]) == 0
    told = capsys.readouterr().out
    assert "unknown calls of the recorded steps, torch 2.13:" in told
    assert {line.split()[0] for line in told.splitlines() if "% of" in line} == {
        str(backend) for backend in Backend if backend is not Backend.RECORDED
    }
    assert "MISSED" not in told


def test_a_target_that_is_missed_is_an_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AT_MOST, Backend.NPU, (0.1, 0.1))
    assert main(["--golden", "--backend", "npu", "--leading", "1"]) == 1
    _, row, leading, *_ = capsys.readouterr().out.splitlines()
    assert row.endswith("target: under 0.1 %, MISSED")
    assert "aten." in leading


@pytest.fixture(scope="module")
def whole_steps() -> Trace:
    return Trace.load(WHOLE_STEPS)


@pytest.mark.parametrize("backend", UNKNOWN_AT_MOST, ids=str)
def test_of_whole_steps_every_overload_has_its_evidence_or_is_unknown(backend: Backend, whole_steps: Trace) -> None:
    grounds = overloads_by_ground(whole_steps, backend)
    assert not [op for op, ground in grounds.items() if ground is Ground.NOTHING]
    assert meets_its_target(grounds, backend), [op for op, ground in grounds.items() if ground is Ground.UNKNOWN]


def test_the_list_of_overloads_is_that_of_the_recorded_calls(whole_steps: Trace) -> None:
    names, *listed = (FOLDER / "overloads.csv").read_text().splitlines()
    assert names == "overload,steps,calls"
    calls = Counter[str]()
    for group in whole_steps.calls:
        calls[group.op] += group.count
    assert {row.split(",")[0]: int(row.split(",")[2]) for row in listed} == calls
    assert len((FOLDER / "steps.txt").read_text().splitlines()) > 300


def test_an_overload_counts_by_the_worst_of_its_calls() -> None:
    sparse = {**FACTS, "layout": "sparse_coo"}
    calls = (call("aten.sum.default", facts=FACTS), call("aten.sum.default", facts=sparse), call(facts=FACTS))
    grounds = overloads_by_ground(trace(*calls), Backend.ROCM)
    assert grounds["aten.sum.default"] is Ground.UNKNOWN
    assert not meets_its_target({"aten.foo.default": Ground.NOTHING}, Backend.ROCM)
    assert meets_its_target({"aten.foo.default": Ground.NOTHING}, Backend.CPU)

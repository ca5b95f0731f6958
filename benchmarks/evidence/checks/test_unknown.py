"""How much the tables leave open: the targets hold on real steps, and the benchmark counts what it says."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.evidence.unknown import AT_MOST, Share, golden_steps, main, operator_samples, rows, share_of
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


def test_the_ops_that_lead_are_listed_and_a_target_is_met_or_missed() -> None:
    share = Share(calls=1_000, unknown=6, mode_on=1, ops=Counter({"aten.mm.default": 4, "aten.bmm.default": 2}))
    assert list(rows({Backend.MPS: share}, {Backend.MPS: 0.6}, 1)) == [
        "  mps     0.6 % of 1,000 calls (6), 0.1 % in deterministic mode; target: under 0.6 %, MISSED",
        "             4  aten.mm.default",
        "        and 1 op more",
    ]


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
    assert main(["--golden", "--backend", "npu"]) == 1
    assert "target: under 0.1 %, MISSED" in capsys.readouterr().out

"""The environment of a trace holds the settings under which the calls ran, also those of a block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from tracer import DeterminismTracer, Report, judge
from tracer.names import About, Verdict
from tracer.trace import Trace
from tracer.trace.merging import merge_traces

#: Of unequal numbers: a sum of ones is the same in any order.
ADDENDS, WEIGHTS = torch.rand(2), torch.rand(3, 4)


def verdicts(trace: Trace, op: str) -> set[Verdict]:
    return {found.verdict for found in judge(trace, backend="cuda", torch="2.13").findings if found.op.startswith(op)}


@pytest.mark.parametrize("inside", [True, False])
def test_a_block_around_the_step_is_judged_by_its_own_flags(inside: bool) -> None:
    model = torch.nn.Conv2d(3, 4, 3)
    torch.backends.cudnn.deterministic = not inside
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=inside)
    with DeterminismTracer(model) as tracer, flags:
        model(torch.ones(2, 3, 8, 8)).sum().backward()
    assert torch.backends.cudnn.deterministic is not inside
    assert tracer.trace.environment.cudnn_deterministic is inside
    assert (Verdict.NONDETERMINISTIC in verdicts(tracer.trace, "aten.convolution_backward")) is not inside


@pytest.mark.parametrize("inside", [True, False])
def test_a_mode_that_is_put_back_at_the_end_is_that_of_the_calls(inside: bool) -> None:
    torch.use_deterministic_algorithms(not inside)
    with DeterminismTracer() as tracer:
        torch.use_deterministic_algorithms(inside)
        torch.zeros(4).index_add(0, torch.tensor([0, 0]), ADDENDS)
        torch.use_deterministic_algorithms(not inside)
    assert tracer.trace.environment.deterministic_mode == ("on" if inside else "off")
    assert verdicts(tracer.trace, "aten.index_add") == (set() if inside else {Verdict.NONDETERMINISTIC})


def counted(change: Callable[[], None]) -> bool | None:
    """The recorded flag, where a step ran before ``change`` and a call of no module after it."""
    model = torch.nn.Linear(2, 2)
    torch.backends.cudnn.deterministic = True
    with DeterminismTracer(model) as tracer:
        torch.ones(2).add(1)
        change()
        model(torch.ones(1, 2)).sum().backward()
        torch.backends.cudnn.deterministic = True
        torch.ones(2).add(1)
    return tracer.trace.environment.cudnn_deterministic


def off() -> None:
    torch.backends.cudnn.deterministic = False


def two_onto_one() -> torch.Tensor:
    return torch.zeros(4).index_add(0, torch.tensor([0, 0]), ADDENDS)


def answers(tracer: DeterminismTracer, **more: str) -> tuple[Report, set[tuple[str, Verdict, Verdict]]]:
    """The report for CUDA, and its findings about calls: op and both verdicts."""
    report = judge(tracer.trace, backend="cuda", torch="2.13", **more)
    calls = [finding for finding in report.findings if finding.about is About.CALL]
    return report, {(finding.op, finding.verdict, finding.deterministic_mode) for finding in calls}


def closes_everything(report: Report) -> bool:
    return sorted(at for change in report.plan for at in change.findings) == list(range(len(report.findings)))


VARIES = ("aten.index_add.default", Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)


def test_a_call_out_of_the_mode_is_judged_so_between_calls_in_it() -> None:
    torch.use_deterministic_algorithms(True)
    with DeterminismTracer() as tracer:
        for _ in range(3):
            two_onto_one()
            torch.use_deterministic_algorithms(False)
            two_onto_one()
            torch.use_deterministic_algorithms(True)
    report, calls = answers(tracer)
    assert calls == {VARIES}
    assert [finding.count for finding in report.findings if finding.about is About.CALL] == [3]
    assert closes_everything(report)
    assert answers(tracer, settings="default")[1] == {VARIES}
    assert answers(tracer, settings="deterministic")[1] == set()


def test_a_call_before_the_mode_is_switched_on_is_not_covered_by_it() -> None:
    model = torch.nn.Linear(4, 1)
    with DeterminismTracer(model) as tracer:
        batch = two_onto_one()
        torch.use_deterministic_algorithms(True)
        model(batch).sum().backward()
    report, calls = answers(tracer)
    assert calls == {VARIES}
    (change,) = report.plan
    assert change.code.endswith("torch.use_deterministic_algorithms(True)")
    assert closes_everything(report)


def test_what_the_mode_refuses_runs_where_it_is_off_and_is_replaced_before_the_lines_go() -> None:
    model = torch.nn.Upsample(scale_factor=2, mode="linear")
    torch.use_deterministic_algorithms(True)
    with DeterminismTracer(model) as tracer:
        loss = model(torch.ones(1, 2, 4, requires_grad=True)).sum()
        torch.use_deterministic_algorithms(False)
        loss.backward()
        torch.use_deterministic_algorithms(True)
    report, calls = answers(tracer)
    assert calls == {("aten.upsample_linear1d_backward.default", Verdict.NONDETERMINISTIC, Verdict.RAISES)}
    assert "which raises under deterministic mode" in report.plan[0].title
    assert closes_everything(report)


def test_a_block_around_one_layer_is_judged_by_its_own_flags() -> None:
    torch.backends.cudnn.deterministic = True
    first, second = torch.nn.Conv2d(3, 3, 3), torch.nn.Conv2d(3, 3, 3)
    with DeterminismTracer(torch.nn.ModuleList([first, second])) as tracer, torch.no_grad():
        images = first(torch.ones(2, 3, 8, 8))
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=True):
            second(images)
    report, calls = answers(tracer)
    assert {verdict for op, verdict, _ in calls} == {Verdict.NONDETERMINISTIC}
    assert {finding.module for finding in report.findings if finding.about is About.CALL} == {"1"}
    assert closes_everything(report)


def test_a_setting_that_changes_between_two_recordings_is_that_of_each() -> None:
    tracer = DeterminismTracer()
    for is_on in (True, False, True):
        torch.use_deterministic_algorithms(is_on)
        with tracer:
            two_onto_one()
    report, calls = answers(tracer)
    assert calls == {VARIES}
    assert sum(finding.count for finding in report.findings if finding.about is About.CALL) == 1


def test_settings_survive_the_file_and_merging(tmp_path: Path) -> None:
    with DeterminismTracer() as tracer:
        two_onto_one()
        torch.use_deterministic_algorithms(True)
        two_onto_one()
    tracer.trace.save(tmp_path / "t.json")
    again = Trace.load(tmp_path / "t.json")
    assert again.calls == tracer.trace.calls
    merged = merge_traces([again, again])
    adds = {str(group.settings): group.count for group in merged.calls if group.op == VARIES[0]}
    assert adds == {"{'deterministic_mode': 'off'}": 2, "{'deterministic_mode': 'on'}": 2}


def test_settings_that_decide_on_no_verdict_part_no_groups() -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with DeterminismTracer() as tracer:
        for count, word in ((1, "high"), (2, "highest"), (1, "high")):
            torch.set_num_threads(count)
            torch.set_float32_matmul_precision(word)
            two_onto_one()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    assert [group.count for group in tracer.trace.calls if group.op == VARIES[0]] == [3]


# ------------------------------------------------------------- what torch chooses in the forward of a backward call


def leaf(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, requires_grad=True)


#: Functions of torch that take another way in deterministic mode, each with the op of their backward without it.
ROUTED = {
    "bilinear": (
        lambda: F.interpolate(leaf(1, 2, 4, 4), scale_factor=4, mode="bilinear"),
        "aten.upsample_bilinear2d_backward",
    ),
    "pad 2d": (lambda: F.pad(leaf(2, 3, 8, 8), (4, 4, 4, 4), mode="replicate"), "aten.replication_pad2d_backward"),
    "pad module": (lambda: torch.nn.ReplicationPad3d(4)(leaf(1, 1, 4, 4, 4)), "aten.replication_pad3d_backward"),
    "pool": (
        lambda: F.max_pool3d(leaf(1, 1, 9, 9, 9), 5, 2, return_indices=True)[0],
        "aten.max_pool3d_with_indices_backward",
    ),
}


def turn(mode: str) -> None:
    torch.use_deterministic_algorithms(mode != "off", warn_only=mode == "warn")


def forward_and_backward(run: Callable[[], torch.Tensor], forward: str, backward: str) -> DeterminismTracer:
    with DeterminismTracer() as tracer:
        turn(forward)
        loss = run().sum()
        turn(backward)
        loss.backward()
        turn("off")
    return tracer


@pytest.mark.parametrize("name", ROUTED)
@pytest.mark.parametrize(
    ("forward", "backward", "verdict"),
    [
        ("off", "on", Verdict.RAISES),
        ("off", "warn", Verdict.NONDETERMINISTIC),
        ("on", "off", Verdict.DETERMINISTIC),
        ("warn", "on", Verdict.DETERMINISTIC),
        ("off", "off", Verdict.NONDETERMINISTIC),
    ],
)
def test_a_route_is_judged_by_the_mode_of_its_forward(name: str, forward: str, backward: str, verdict: Verdict) -> None:
    run, op = ROUTED[name]
    tracer = forward_and_backward(run, forward, backward)
    for backend in ("cuda", "xpu") if name in ("bilinear", "pad 2d") else ("cuda",):
        calls = [f for f in judge(tracer.trace, backend=backend, torch="2.13").findings if f.op.startswith(op)]
        assert [f.verdict for f in calls] == ([] if verdict is Verdict.DETERMINISTIC else [verdict])
        assert {f.deterministic_mode for f in calls} <= {Verdict.DETERMINISTIC}, "on in the forward too, it is settled"


def test_a_kernel_that_is_chosen_in_the_backward_is_judged_by_its_mode() -> None:
    def counted_twice() -> torch.Tensor:
        return leaf(9, 4).index_select(0, torch.tensor([0, 0, 0])) * WEIGHTS

    for forward, backward in (("off", "on"), ("on", "off")):
        _, calls = answers(forward_and_backward(counted_twice, forward, backward))
        assert bool(calls) is (backward == "off")


def test_a_plan_sets_the_mode_before_the_forward() -> None:
    report, _ = answers(forward_and_backward(ROUTED["bilinear"][0], "off", "on"))
    assert any(change.code.endswith("torch.use_deterministic_algorithms(True)") for change in report.plan)
    assert closes_everything(report)


def test_a_forward_that_is_run_again_chooses_anew() -> None:
    """Reentrant checkpointing makes its graph in the backward pass."""

    def recomputed() -> torch.Tensor:
        def enlarged(images: torch.Tensor) -> torch.Tensor:
            return F.interpolate(images, scale_factor=4, mode="bilinear")

        return checkpoint(enlarged, leaf(1, 2, 4, 4), use_reentrant=True)  # type: ignore[no-any-return]

    assert answers(forward_and_backward(recomputed, "off", "on"))[1] == set()
    assert answers(forward_and_backward(recomputed, "on", "off"))[1] != set()


def test_cudnn_attention_that_was_chosen_without_the_mode_runs_in_it() -> None:
    """torch leaves cuDNN out as it chooses, and does not refuse its backward."""

    def attention() -> torch.Tensor:
        query = torch.ones(1, 2, 8, 8, dtype=torch.bfloat16, requires_grad=True)
        return F.scaled_dot_product_attention(query, query, query)

    def verdicts_of(forward: str, backward: str) -> set[Verdict]:
        trace = forward_and_backward(attention, forward, backward).trace
        return verdicts(trace, "aten._scaled_dot_product_flash_attention_for_cpu_backward")

    assert verdicts_of("off", "on") == {Verdict.NONDETERMINISTIC}
    assert verdicts_of("on", "on") == set()
    assert verdicts_of("on", "off") == {Verdict.NONDETERMINISTIC}, "flash attention asks in its backward"


@pytest.mark.parametrize(
    ("run", "rule"),
    [
        (
            lambda: F.grid_sample(leaf(1, 2, 4, 4), torch.zeros(1, 4, 4, 2), align_corners=True),
            "cuda-cudnn-grid-sample-backward",
        ),
        (lambda: torch.nn.GRU(3, 3)(leaf(2, 2, 3))[0], "cuda-rnn-backward"),
    ],
)
@pytest.mark.parametrize("forward", [True, False])
def test_the_forward_chooses_cudnn_for_its_backward(run: Callable[[], torch.Tensor], rule: str, forward: bool) -> None:
    with DeterminismTracer() as tracer:
        with torch.backends.cudnn.flags(enabled=forward):
            loss = run().sum()
        with torch.backends.cudnn.flags(enabled=not forward):
            loss.backward()
    backward = {finding.rule for finding in answers(tracer)[0].findings if finding.phase == "backward"}
    assert (rule in backward) is forward


def test_calls_of_the_step_decide_before_those_beside_it_and_in_a_second_recording_its_own() -> None:
    assert counted(off) is False
    assert counted(lambda: None) is True

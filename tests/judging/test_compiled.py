"""A compiled call is judged by what becomes of it: a kernel of its compiler's, an eager one, the code that was seen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support import build
from tracer import judge
from tracer.findings import Finding
from tracer.names import (
    About,
    Backend,
    Cause,
    DeterministicMode,
    Direction,
    EventKind,
    EvidenceKind,
    KernelLanguage,
    Phase,
    Prerequisite,
    RegionInside,
    Shown,
    Subsystem,
    UnknownReason,
    Verdict,
)
from tracer.report import Report
from tracer.report.sections.plan import step_of_plan
from tracer.trace.records import Event, Kernel

PUT = "aten.index_put.default"
ADDED = {
    "device": "cpu",
    "dtype": "float32",
    "arg.accumulate": True,
    "index.is_mask": False,
    "index.one_value": False,
    "shape.numel_ge_32768": True,
}
KERNEL = "cpp_fused_index_add_0"
GRADIENT = "aten.avg_pool3d_backward.default"


def judged(
    *kernels: Kernel,
    op: str = PUT,
    facts: dict[str, Any] | None = None,
    mode: DeterministicMode | None = DeterministicMode.OFF,
    into: tuple[str, ...] | None = None,
    region: dict[str, Any] | None = None,
    environment: dict[str, Any] | None = None,
    phase: Phase = Phase.FORWARD,
    events: tuple[Event, ...] = (),
    **target: Any,
) -> Report:
    """One compiled call that went into ``kernels``, judged for ``target``."""
    names = tuple(kernel.name for kernel in kernels) if into is None else into
    made = build.region(kernels=kernels, deterministic_mode=mode, **(region or {}))
    call = build.call(op, facts=ADDED if facts is None else facts, region=made.id, kernels=names, phase=phase)
    trace = build.trace(
        call, regions=(made,), events=events, environment=build.environment(**{"num_threads": 2} | (environment or {}))
    )
    return judge(trace, **target)


def only(report: Report) -> Finding:
    """The one finding about a call."""
    (found,) = [one for one in report.findings if one.op]
    return found


def verdicts(report: Report) -> tuple[Verdict, Verdict]:
    """As things stand and in deterministic mode, of the one call."""
    (as_is,), (in_mode,) = report.tally.as_is, report.tally.deterministic_mode
    return as_is, in_mode


def test_a_kernel_that_adds_atomically_is_a_finding_with_line_region_and_kernel() -> None:
    found = only(judged(build.kernel()))
    assert (found.verdict, found.deterministic_mode) == (Verdict.CONDITIONAL, Verdict.DETERMINISTIC)
    assert (found.rule, found.location, found.regions, found.kernels) == (
        "inductor-cpu-index-put",
        "train.py:10",
        ("0/0 forward",),
        (KERNEL,),
    )
    assert found.shown is Shown.ADDS_ATOMICALLY
    assert found.why.startswith(f"`{KERNEL}` adds atomically.")
    assert found.evidence[0].kind is EvidenceKind.GENERATED
    assert KERNEL in found.evidence[0].ref
    assert found.route == "aten.index_put_"


def test_the_eager_twin_of_a_small_call_is_none() -> None:
    eager = build.call(PUT, facts={**ADDED, "shape.numel_ge_32768": False})
    assert judge(build.trace(eager, environment=build.environment(num_threads=2))).findings == ()


def test_code_that_was_seen_to_add_nothing_atomically_lets_the_op_off() -> None:
    assert verdicts(judged(build.kernel(atomic=False))) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def test_a_kernel_that_one_thread_runs_adds_in_one_order_atomically_or_not() -> None:
    assert verdicts(judged(build.kernel(is_parallel=False)))[0] is Verdict.DETERMINISTIC
    assert verdicts(judged(build.kernel(is_parallel=None)))[0] is Verdict.CONDITIONAL


def test_a_triton_kernel_that_adds_atomically_varies_and_a_loop_of_threads_may() -> None:
    triton = build.kernel("triton_fused_index_add_0", language=KernelLanguage.TRITON, is_parallel=None)
    assert verdicts(judged(triton))[0] is Verdict.NONDETERMINISTIC
    assert verdicts(judged(build.kernel(), triton))[0] is Verdict.NONDETERMINISTIC
    assert "shows whether runs differ" in only(judged(build.kernel())).why


def test_writes_at_an_index_race_only_where_several_threads_write() -> None:
    name, facts = "aten.scatter.src", {"device": "cpu", "dtype": "float32"}
    made = build.kernel("cpp_fused_scatter_0", ops=(name,), atomic=False, is_parallel=True)
    in_order = replace(made, is_parallel=False)
    assert verdicts(judged(made, op=name, facts=facts))[0] is Verdict.CONDITIONAL
    assert verdicts(judged(in_order, op=name, facts=facts))[0] is Verdict.DETERMINISTIC
    both = (in_order, replace(made, name="cpp_fused_scatter_1"))
    assert verdicts(judged(*both, op=name, facts=facts))[0] is Verdict.CONDITIONAL


def test_where_no_code_was_seen_the_table_speaks() -> None:
    found = only(judged(into=()))
    assert (found.verdict, found.shown) == (Verdict.NONDETERMINISTIC, None)
    assert {one.kind for one in found.evidence} == {EvidenceKind.SOURCE}


def test_an_op_that_shares_a_kernel_with_the_one_that_adds_is_not_accused() -> None:
    both = build.kernel(ops=(PUT, "aten.mul.Tensor"))
    facts = {"device": "cpu", "dtype": "float32"}
    assert verdicts(judged(both, op="aten.mul.Tensor", facts=facts)) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def test_where_no_op_of_the_kernel_is_known_to_add_all_of_them_are_accused() -> None:
    strange = build.kernel(ops=("aten.mul.Tensor",))
    found = only(judged(strange, op="aten.mul.Tensor", facts={"device": "cpu", "dtype": "float32"}))
    assert (found.rule, found.verdict, found.cause) == (
        "inductor-cpu-adds-atomically",
        Verdict.CONDITIONAL,
        Cause.ATOMIC_ACCUMULATION,
    )


def test_integers_are_exact_whatever_the_order() -> None:
    assert verdicts(judged(into=(), facts={**ADDED, "dtype": "int32"}))[0] is Verdict.DETERMINISTIC


def test_an_index_without_duplicates_lets_the_op_off_although_the_kernel_has_atomics() -> None:
    facts = {**ADDED, "index.distinct": True}
    assert verdicts(judged(build.kernel(), facts=facts)) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def test_one_value_of_a_missing_fact_is_settled_by_atomics_that_were_seen() -> None:
    facts = {"device": "cpu", "dtype": "float32"}
    assert only(judged(build.kernel(), facts=facts)).verdict is Verdict.CONDITIONAL
    unseen = only(judged(into=(), facts=facts))
    assert (unseen.verdict, unseen.reason) == (Verdict.UNKNOWN, UnknownReason.FACT_NOT_RECORDED)


def test_an_op_that_fell_back_is_not_accused_for_the_atomics_of_its_fused_neighbour() -> None:
    fused = build.kernel(ops=("aten.scatter_add.default", PUT))
    fallback = build.kernel(name="aten.scatter_reduce_.two", language=KernelLanguage.FALLBACK, atomic=None, ops=())
    facts = {"device": "cpu", "dtype": "float32", "ndim": 2}
    report = judged(fused, fallback, op="aten.scatter_add.default", facts=facts)
    assert verdicts(report) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA])
def test_two_addends_onto_zeros_are_the_same_sum_in_either_order(backend: Backend) -> None:
    report = judged(build.kernel(), facts={**ADDED, "index.adds_two_to_zeros": True}, backend=backend)
    assert verdicts(report) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def test_code_that_was_compiled_under_the_mode_is_judged_under_it() -> None:
    report = judged(build.kernel(atomic=False), mode=DeterministicMode.ON, backend=Backend.CUDA)
    assert verdicts(report)[0] is Verdict.DETERMINISTIC
    replaced = judged(build.kernel(atomic=False), mode=DeterministicMode.ON, backend=Backend.CUDA, settings="default")
    assert verdicts(replaced)[0] is Verdict.NONDETERMINISTIC


FLAG = "torch._inductor.config.deterministic"
COMPILED = Event(kind=EventKind.FIRST_USE, name=Subsystem.INDUCTOR.value)
SUM = {"device": "cpu", "dtype": "float32", "ndim": 2}


def about_autotuning(report: Report) -> dict[str, Verdict]:
    """The findings about settings of Inductor."""
    return {one.name: one.verdict for one in report.findings if one.rule.startswith("environment-inductor")}


def test_a_sum_of_integers_is_the_same_however_triton_splits_it() -> None:
    kernel = build.kernel(ops=("aten.sum.dim_IntList",), atomic=False)
    facts, region = {**SUM, "dtype": "int32"}, {"options": {FLAG: False}}
    report = judged(
        kernel, op="aten.sum.dim_IntList", facts=facts, region=region, events=(COMPILED,), backend=Backend.CUDA
    )
    assert about_autotuning(report) == {}


def test_a_sum_of_few_addends_is_written_out_and_not_timed() -> None:
    kernel = build.kernel(ops=("aten.sum.dim_IntList",), atomic=False)
    facts, region = {**SUM, "shape.is_unrolled": True}, {"options": {FLAG: False}}
    report = judged(
        kernel, op="aten.sum.dim_IntList", facts=facts, region=region, events=(COMPILED,), backend=Backend.CUDA
    )
    assert about_autotuning(report) == {}


@pytest.mark.parametrize("is_flagged", [False, True])
def test_inductors_flag_of_a_region_decides_about_the_timing_of_its_reductions(is_flagged: bool) -> None:
    kernel = build.kernel(ops=("aten.sum.dim_IntList",), atomic=False)
    region = {"options": {FLAG: is_flagged}}
    report = judged(
        kernel, op="aten.sum.dim_IntList", facts=SUM, region=region, events=(COMPILED,), backend=Backend.CUDA
    )
    assert about_autotuning(report) == ({} if is_flagged else {"Triton configurations of reductions": "conditional"})


def test_inductors_flag_is_what_a_plan_sets_for_timed_reductions() -> None:
    kernel = build.kernel(ops=("aten.sum.dim_IntList",), atomic=False)
    report = judged(
        kernel,
        op="aten.sum.dim_IntList",
        facts=SUM,
        region={"options": {FLAG: False}},
        events=(COMPILED,),
        backend="cuda",
    )
    assert [one.sets for one in report.findings if one.rule.startswith("environment-inductor")] == [{FLAG: True}]
    assert about_autotuning(judge(report.judgement.trace, backend="cuda", settings={FLAG: True})) == {}


@pytest.mark.parametrize(
    ("op", "named"),
    [("aten.mul.Tensor", set()), ("aten.mm.default", {"torch._inductor.config.shape_padding"})],
)
def test_padding_of_products_is_told_of_regions_with_products_alone(op: str, named: set[str]) -> None:
    region = {"options": {FLAG: False, "torch._inductor.config.shape_padding": True}}
    kernel = build.kernel(ops=(op,), atomic=False)
    report = judged(kernel, op=op, facts=SUM, region=region, events=(COMPILED,), backend=Backend.CUDA)
    assert set(about_autotuning(report)) == named


@pytest.mark.parametrize(
    ("op", "fact"), [("aten.sum.default", "shape.is_single_sum"), ("aten.mm.default", "shape.is_aligned")]
)
def test_what_inductor_has_nothing_to_time_for_gets_no_finding(op: str, fact: str) -> None:
    options = {FLAG: False, "torch._inductor.config.shape_padding": True}
    options |= {"torch._inductor.config.dynamic_scale_rblock": True}
    named = [
        about_autotuning(
            judged(
                build.kernel(ops=(op,), atomic=False),
                op=op,
                facts={**SUM, **facts},
                region={"options": options},
                events=(COMPILED,),
                backend=Backend.CUDA,
            )
        )
        for facts in ({fact: True}, {})
    ]
    assert named[0] == {}
    assert named[1]


def test_coordinate_descent_tunes_the_sum_of_few_numbers_too() -> None:
    region = {"options": {FLAG: False, "torch._inductor.config.coordinate_descent_tuning": True}}
    report = judged(
        build.kernel(ops=("aten.sum.default",), atomic=False),
        op="aten.sum.default",
        facts={**SUM, "shape.is_single_sum": True},
        region=region,
        events=(COMPILED,),
        backend=Backend.CUDA,
    )
    assert set(about_autotuning(report)) == {"torch._inductor.config.coordinate_descent_tuning"}


@pytest.mark.parametrize("is_timed", [None, True])
def test_a_product_for_which_nothing_was_timed_here_is_not_autotuned(is_timed: bool | None) -> None:
    called = build.kernel("extern_kernels.mm", language=KernelLanguage.EXTERN, atomic=None, by_stopwatch=is_timed)
    region = {"options": {FLAG: False, "torch._inductor.config.max_autotune": True}}
    report = judged(called, op="aten.mm.default", facts=SUM, region=region, events=(COMPILED,))
    assert set(about_autotuning(report)) == ({"torch._inductor.config.max_autotune"} if is_timed else set())


@pytest.mark.parametrize(("backend", "row"), [("cuda", "cudnn-deterministic"), ("rocm", "miopen-deterministic")])
@pytest.mark.parametrize("is_depthwise", [True, False])
def test_cudnn_computes_no_depthwise_convolution_of_torchs_own(backend: str, row: str, is_depthwise: bool) -> None:
    own = {"conv.own_depthwise": True} if is_depthwise else {}
    call = build.call(op="aten.convolution.default", facts={**SUM, **own, "conv.plain_forward": True})
    settings = build.environment(cudnn_enabled=True, cudnn_deterministic=False)
    report = judge(build.trace(call, environment=settings), backend=backend)
    is_named = f"environment-{row}" in {found.rule for found in report.findings}
    assert is_named is not (is_depthwise and backend == "cuda")


@pytest.mark.parametrize("fact", ["shape.adds_whole_numbers", "index.adds_two_to_zeros", "index.distinct"])
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_sums_that_no_order_changes_are_exempt(fact: str, backend: str) -> None:
    report = judged(build.kernel(), facts={**ADDED, fact: True}, backend=backend)
    assert not [found for found in report.findings if found.op]


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_duplicates_that_write_what_they_read_are_exempt(backend: str) -> None:
    facts = {**ADDED, "arg.accumulate": False, "index.writes_what_it_read": True}
    assert not [
        found for found in judged(build.kernel(atomic=False), facts=facts, backend=backend).findings if found.op
    ]


def test_a_store_that_races_is_not_let_off_by_a_kernel_without_atomics() -> None:
    found = only(judged(build.kernel(atomic=False), facts={**ADDED, "arg.accumulate": False}))
    assert (found.verdict, found.cause) == (Verdict.CONDITIONAL, Cause.WRITE_RACE)


def test_an_op_that_stayed_a_call_is_judged_as_its_eager_kernel() -> None:
    called = build.kernel("aten.index_put_.default", language=KernelLanguage.FALLBACK, atomic=None)
    found = only(judged(called, facts={**ADDED}))
    assert (found.rule, found.shown, found.runs_as) == ("cpu-index-put", Shown.CALLED, "aten.index_put_")
    assert "The compiled code calls `aten.index_put_.default`." in found.why


def test_code_compiled_under_the_mode_speaks_for_the_mode_alone() -> None:
    called = build.kernel("aten.index_put_.default", language=KernelLanguage.FALLBACK, atomic=None)
    on = {"deterministic_mode": DeterministicMode.ON}
    assert verdicts(judged(called, mode=DeterministicMode.ON, environment=on)) == (
        Verdict.DETERMINISTIC,
        Verdict.DETERMINISTIC,
    )
    off = only(judged(called, mode=DeterministicMode.ON, environment=on, settings="default"))
    assert (off.verdict, off.shown) == (Verdict.NONDETERMINISTIC, None)


@pytest.mark.parametrize("target", [{"torch": "2.9"}, {"backend": "cuda"}, {"settings": {"num_threads": 1}}])
def test_for_another_target_the_table_speaks(target: dict[str, Any]) -> None:
    report = judged(build.kernel(), **target)
    assert all(one.shown is None for one in report.findings if one.op)


def test_kernels_of_another_device_are_not_named() -> None:
    found = only(judged(build.kernel(), backend="cuda"))
    assert (found.regions, found.kernels, found.verdict) == (("0/0 forward",), (), Verdict.NONDETERMINISTIC)


def test_a_seed_is_no_matter_of_compiling() -> None:
    facts = {"device": "cpu", "rng.origin": "machine", "rng.generator": "cpu"}
    plan = judged(into=(), op="prims.inductor_seeds.default", facts=facts).plan
    assert [change.sets for change in plan] == [{"seed.torch": True}]
    assert plan[0].needs == ()
    drawn = judged(into=(), op="prims.inductor_random.default", facts={"device": "cpu", "dtype": "float32"})
    assert verdicts(drawn) == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def test_with_one_thread_nothing_meets() -> None:
    assert verdicts(judged(into=(), environment={"num_threads": 1}))[0] is Verdict.DETERMINISTIC


def test_bfloat16_was_left_to_the_eager_kernel_before_2_10() -> None:
    facts = {**ADDED, "dtype": "bfloat16"}
    assert verdicts(judged(into=(), facts=facts, torch="2.9"))[0] is Verdict.DETERMINISTIC
    assert verdicts(judged(into=(), facts=facts, torch="2.10"))[0] is Verdict.NONDETERMINISTIC


@pytest.mark.parametrize("backend", ["rocm", "xpu", "mps", "npu"])
def test_a_device_whose_backend_of_the_compiler_was_not_read_is_unknown(backend: str) -> None:
    found = only(judged(build.kernel(), backend=backend))
    assert (found.verdict, found.reason, found.rule) == (
        Verdict.UNKNOWN,
        UnknownReason.NO_TABLE,
        f"{backend}-compiled",
    )


def test_a_compiler_without_a_table_is_unknown_and_named() -> None:
    found = only(judged(into=(), region={"backend": "tvm"}))
    assert found.verdict is Verdict.UNKNOWN
    assert "`tvm`" in found.why


def test_a_torch_older_than_the_table_is_unknown() -> None:
    found = only(judged(build.kernel(), torch="2.3"))
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, UnknownReason.TABLE_NOT_REVIEWED)


def test_an_op_without_a_rule_is_judged_as_its_eager_kernel_which_is_the_worse_of_both() -> None:
    facts = {"device": "cuda", "dtype": "float32"}
    found = only(
        judged(into=(), op="aten.adaptive_max_pool2d_backward.default", facts=facts, region={"device": "cuda"})
    )
    assert (found.rule, found.deterministic_mode) == ("cuda-adaptive-max-pool2d-backward", Verdict.RAISES)


@pytest.mark.parametrize("is_gathered", [False, True])
def test_the_backward_of_average_pooling_gathers_unless_too_many_windows_meet(is_gathered: bool) -> None:
    overlap = {"shape.windows_overlap": True, "shape.unit_stride_unpadded": False}
    facts = {"device": "cpu", "dtype": "float32", **overlap, "shape.windows_gathered": is_gathered}
    report = judged(build.kernel(ops=(), atomic=False), op=GRADIENT, facts=facts, backend=Backend.CUDA)
    assert verdicts(report)[0] is (Verdict.DETERMINISTIC if is_gathered else Verdict.NONDETERMINISTIC)


def test_an_op_that_was_inlined_without_atomics_is_safe_although_its_eager_kernel_is_not() -> None:
    facts = {"device": "cuda", "dtype": "float32"}
    inlined = build.kernel("triton_poi_fused_0", language=KernelLanguage.TRITON, device="cuda", atomic=False, ops=())
    report = judged(inlined, op="aten.max_pool3d_with_indices_backward.default", facts=facts, region={"device": "cuda"})
    assert verdicts(report)[0] is Verdict.DETERMINISTIC


def test_a_kernel_chosen_with_a_stopwatch_can_be_another_one_next_time() -> None:
    facts = {"device": "cuda", "dtype": "float32"}
    timed = build.kernel(
        "triton_tem_fused_mm_0",
        language=KernelLanguage.TEMPLATE,
        device="cuda",
        atomic=False,
        ops=("aten.mm.default",),
        by_stopwatch=True,
    )
    found = only(judged(timed, op="aten.mm.default", facts=facts, region={"device": "cuda"}))
    assert (found.verdict, found.cause, found.shown) == (Verdict.CONDITIONAL, Cause.AUTOTUNE, Shown.TIMED)


def test_what_is_fused_with_a_sum_that_was_timed_is_not_held_to_be_a_sum() -> None:
    facts = {"device": "cuda", "dtype": "float32"}
    timed = build.kernel(
        "triton_per_fused_mul_sum_0",
        language=KernelLanguage.TRITON,
        device="cuda",
        atomic=False,
        ops=("aten.mul.Tensor", "aten.sum.dim_IntList"),
        by_stopwatch=True,
    )
    found = only(judged(timed, op="aten.sum.dim_IntList", facts=facts, region={"device": "cuda"}))
    assert (found.verdict, found.rule) == (Verdict.CONDITIONAL, "inductor-cuda-chosen-by-timing")
    report = judged(timed, op="aten.mul.Tensor", facts=facts, region={"device": "cuda"})
    assert verdicts(report)[0] is Verdict.DETERMINISTIC


def test_blocks_of_a_pointwise_kernel_that_were_timed_change_no_number() -> None:
    facts = {"device": "cuda", "dtype": "float32"}
    timed = build.kernel(
        "triton_poi_fused_add_0", language=KernelLanguage.TRITON, device="cuda", atomic=False, by_stopwatch=True
    )
    report = judged(timed, op="aten.add.Tensor", facts=facts, region={"device": "cuda"})
    assert verdicts(report)[0] is Verdict.DETERMINISTIC


def test_compiled_and_eager_calls_of_one_line_are_two_findings_and_recompiled_ones_are_one() -> None:
    facts = {**ADDED}
    one, two = (build.region(f"0/{n} forward", deterministic_mode=DeterministicMode.OFF) for n in range(2))
    calls = [
        build.call(PUT, facts=facts),
        *(build.call(PUT, facts=facts, region=made.id, kernels=(KERNEL,)) for made in (one, two)),
    ]
    made = judge(build.trace(*calls, regions=(one, two), environment=build.environment(num_threads=2)))
    found = {finding.rule: finding for finding in made.findings if finding.op}
    assert found.keys() == {"cpu-index-put", "inductor-cpu-index-put"}
    assert (found["inductor-cpu-index-put"].count, found["inductor-cpu-index-put"].regions) == (2, (one.id, two.id))


def test_a_launched_triton_kernel_is_judged_by_its_source() -> None:
    facts = {"device": "cuda"}
    for atomic, says in ((True, Verdict.NONDETERMINISTIC), (False, Verdict.DETERMINISTIC), (None, Verdict.UNKNOWN)):
        kernel = build.kernel("add", language=KernelLanguage.USER_TRITON, device="cuda", atomic=atomic, ops=())
        call = build.call("triton.add", facts=facts, kernels=("add",))
        assert verdicts(judge(build.trace(call, launched=(kernel,))))[0] is says


def test_the_plan_says_that_the_mode_must_be_on_before_anything_is_compiled() -> None:
    (change,) = judged(build.kernel()).plan
    assert change.sets == {"deterministic_mode": "on"}
    assert [need.kind for need in change.needs] == [Prerequisite.BEFORE_COMPILING]
    assert list(step_of_plan(change).needs) == [
        "Make it before anything is compiled: what was compiled without it must be compiled anew"
    ]


def test_kernels_of_a_region_whose_ops_were_not_seen_are_findings_of_the_process() -> None:
    cached = build.region(inside=RegionInside.KERNELS, deterministic_mode=DeterministicMode.OFF, executions=3)
    trace = build.trace(build.call("aten.mul.Tensor"), regions=(cached,))
    (found,) = [one for one in judge(trace).findings if one.about is About.COMPILED]
    assert (found.verdict, found.deterministic_mode) == (Verdict.CONDITIONAL, Verdict.DETERMINISTIC)
    assert (found.kernels, found.regions, found.count) == ((KERNEL,), (cached.id,), 3)
    assert {"deterministic_mode": "on"}.items() <= judge(trace).planned_settings.items()
    assert not [one for one in judge(trace, settings="deterministic").findings if one.about is About.COMPILED]
    assert not [one for one in judge(trace, backend="cuda").findings if one.about is About.COMPILED]


def test_every_call_is_counted_once_whatever_it_was_compiled_to() -> None:
    report = judged(build.kernel())
    assert report.tally.total == 1
    assert [call.ruling.backend for call in report.calls] == [Backend.CPU]


APART = ("aten.bmm.default", "aten.amax.default", "aten.exp.default", "aten.any.dim")


@pytest.mark.parametrize(
    ("ops", "direction", "backend", "is_open"),
    [
        (APART, "forward", "cuda", True),
        (APART, "inference", "cuda", False),
        (APART, "forward", "cpu", False),
        (APART, "forward", "recorded", False),
        (APART[:3], "forward", "cuda", False),
    ],
)
def test_attention_that_was_compiled_for_a_cpu_is_open_where_fused_kernels_have_a_backward(
    ops: tuple[str, ...], direction: str, backend: str, is_open: bool
) -> None:
    region = build.region(direction=Direction(direction))
    facts = {"device": "cpu", "dtype": "float32"}
    calls = [build.call(op, facts=facts, region=region.id, location="net.py:64") for op in ops]
    report = judge(build.trace(*calls, regions=(region,)), backend=backend, settings="default")
    found = [one for one in report.findings if one.runs_as == "scaled_dot_product_attention"]
    assert [(one.location, one.verdict) for one in found] == [("net.py:64", Verdict.UNKNOWN)] * is_open
    where = [change.where for change in report.plan if change.title.startswith("Record with `tracer run --eager`")]
    assert where == ["scaled_dot_product_attention"] * is_open
    assert is_open is ("attention-taken-apart" in report.to_html())

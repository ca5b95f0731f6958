"""A compiled call is judged by what becomes of it: a kernel of its compiler's, an eager one, the code that was seen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support import build
from tests.tables.claims import LETTERS
from tracer import judge
from tracer.findings import Finding
from tracer.names import (
    About,
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
    assert "shows whether runs differ" in found.why


def test_the_eager_twin_of_a_small_call_is_none() -> None:
    eager = build.call(PUT, facts={**ADDED, "shape.numel_ge_32768": False})
    assert judge(build.trace(eager, environment=build.environment(num_threads=2))).findings == ()


PLAIN, ADDS = {"device": "cpu", "dtype": "float32"}, build.kernel()
NO_ATOMICS, IN_ORDER = build.kernel(atomic=False), build.kernel(is_parallel=False)
TRITON_ADDS = build.kernel("triton_fused_index_add_0", language=KernelLanguage.TRITON, is_parallel=None)
CALLED = build.kernel("aten.index_put_.default", language=KernelLanguage.FALLBACK, atomic=None)
SCATTER = build.kernel("cpp_fused_scatter_0", ops=("aten.scatter.src",), atomic=False, is_parallel=True)
SCATTERS_IN_ORDER = replace(SCATTER, name="cpp_fused_scatter_1", is_parallel=False)
SCATTERED = {"op": "aten.scatter.src", "facts": PLAIN}
MULTIPLIED = {"op": "aten.mul.Tensor", "facts": PLAIN}
ON = {"mode": DeterministicMode.ON, "environment": {"deterministic_mode": DeterministicMode.ON}}
FELL_BACK = build.kernel("aten.scatter_reduce_.two", language=KernelLanguage.FALLBACK, atomic=None, ops=())
OVERLAPS = {"shape.windows_overlap": True, "shape.unit_stride_unpadded": False}


def on_cuda(op: str, **facts: Any) -> dict[str, Any]:
    """A call of ``op`` in a region that was compiled for CUDA."""
    return {"op": op, "facts": {"device": "cuda", "dtype": "float32", **facts}, "region": {"device": "cuda"}}


def triton(name: str, *ops: str, timed: bool = False, language: KernelLanguage = KernelLanguage.TRITON) -> Kernel:
    return build.kernel(name, language=language, device="cuda", atomic=False, ops=ops, by_stopwatch=timed or None)


#: The kernels that a call went into, what else is known, and its verdicts as things stand and in the mode.
VERDICTS: dict[str, tuple[tuple[Kernel, ...], dict[str, Any], str]] = {
    "code that was seen to add nothing atomically": ((NO_ATOMICS,), {}, "DD"),
    "what one thread adds, in one order": ((IN_ORDER,), {}, "DD"),
    "what may be one thread": ((build.kernel(is_parallel=None),), {}, "CD"),
    "a Triton kernel that adds": ((TRITON_ADDS,), {}, "ND"),
    "a Triton kernel beside a loop of threads": ((ADDS, TRITON_ADDS), {}, "ND"),
    "writes of several threads": ((SCATTER,), SCATTERED, "CD"),
    "writes of one thread": ((SCATTERS_IN_ORDER,), SCATTERED, "DD"),
    "writes of one thread and of several": ((SCATTERS_IN_ORDER, SCATTER), SCATTERED, "CD"),
    "a store that races beside no atomics": ((NO_ATOMICS,), {"facts": {**ADDED, "arg.accumulate": False}}, "CD"),
    "an op that shares a kernel with one that adds": ((build.kernel(ops=(PUT, "aten.mul.Tensor")),), MULTIPLIED, "DD"),
    "no op of the kernel is known to add": ((build.kernel(ops=("aten.mul.Tensor",)),), MULTIPLIED, "CD"),
    "an op that fell back beside a neighbour that adds": (
        (build.kernel(ops=("aten.scatter_add.default", PUT)), FELL_BACK),
        {"op": "aten.scatter_add.default", "facts": {**PLAIN, "ndim": 2}},
        "DD",
    ),
    "integers": ((), {"facts": {**ADDED, "dtype": "int32"}}, "DD"),
    "atomics that were seen settle a missing fact": ((ADDS,), {"facts": PLAIN}, "CD"),
    "a missing fact": ((), {"facts": PLAIN}, "UD"),
    "one thread": ((), {"environment": {"num_threads": 1}}, "DD"),
    "bfloat16 was left to the eager kernel": ((), {"facts": {**ADDED, "dtype": "bfloat16"}, "torch": "2.9"}, "DD"),
    "bfloat16 since 2.10": ((), {"facts": {**ADDED, "dtype": "bfloat16"}, "torch": "2.10"}, "ND"),
    "compiled under the mode, for the mode": ((NO_ATOMICS,), {"mode": DeterministicMode.ON, "backend": "cuda"}, "DD"),
    "compiled under the mode, for the default": (
        (NO_ATOMICS,),
        {"mode": DeterministicMode.ON, "backend": "cuda", "settings": "default"},
        "ND",
    ),
    "a call that stayed one, under the mode": ((CALLED,), ON, "DD"),
    "a draw of the compiler's own": ((), {"op": "prims.inductor_random.default", "facts": PLAIN}, "DD"),
    "average pooling, where too many windows meet": (
        (build.kernel(ops=(), atomic=False),),
        {"op": GRADIENT, "facts": {**PLAIN, **OVERLAPS, "shape.windows_gathered": False}, "backend": "cuda"},
        "NR",
    ),
    "average pooling, gathered": (
        (build.kernel(ops=(), atomic=False),),
        {"op": GRADIENT, "facts": {**PLAIN, **OVERLAPS, "shape.windows_gathered": True}, "backend": "cuda"},
        "DD",
    ),
    "inlined without atomics, unlike its eager kernel": (
        (triton("triton_poi_fused_0"),),
        on_cuda("aten.max_pool3d_with_indices_backward.default"),
        "DR",
    ),
    "an op without a rule is its eager kernel": ((), on_cuda("aten.adaptive_max_pool2d_backward.default"), "UR"),
    "blocks of a pointwise kernel that were timed": (
        (triton("triton_poi_fused_add_0", timed=True),),
        on_cuda("aten.add.Tensor"),
        "DD",
    ),
    "fused with a sum that was timed": (
        (triton("triton_per_fused_mul_sum_0", "aten.mul.Tensor", "aten.sum.dim_IntList", timed=True),),
        on_cuda("aten.mul.Tensor"),
        "DD",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_compiled_call_is_judged_by_what_became_of_it(case: str) -> None:
    kernels, known, expected = VERDICTS[case]
    report = judged(*kernels, **known)
    assert "".join(LETTERS[one] for one in verdicts(report)) == expected
    assert report.tally.total == 1


@pytest.mark.parametrize(
    "fact",
    ["shape.adds_whole_numbers", "index.adds_two_to_zeros", "index.distinct", "index.writes_what_it_read"],
)
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_sums_that_no_order_changes_and_duplicates_that_write_what_they_read_are_exempt(
    fact: str, backend: str
) -> None:
    writes = fact == "index.writes_what_it_read"
    facts = {**ADDED, "arg.accumulate": not writes, fact: True}
    report = judged(NO_ATOMICS if writes else ADDS, facts=facts, backend=backend)
    assert not [found for found in report.findings if found.op]


def test_where_no_code_was_seen_the_table_speaks() -> None:
    found = only(judged(into=()))
    assert (found.verdict, found.shown) == (Verdict.NONDETERMINISTIC, None)
    assert {one.kind for one in found.evidence} == {EvidenceKind.SOURCE}
    assert only(judged(into=(), facts=PLAIN)).reason is UnknownReason.FACT_NOT_RECORDED
    eager = only(judged(into=(), **on_cuda("aten.adaptive_max_pool2d_backward.default")))
    assert eager.rule == "cuda-adaptive-max-pool2d-backward"


def test_atomics_of_an_op_that_nobody_knows_to_add_have_a_rule_of_their_own() -> None:
    found = only(judged(build.kernel(ops=("aten.mul.Tensor",)), **MULTIPLIED))
    assert (found.rule, found.cause) == ("inductor-cpu-adds-atomically", Cause.ATOMIC_ACCUMULATION)
    raced = only(judged(NO_ATOMICS, facts={**ADDED, "arg.accumulate": False}))
    assert raced.cause is Cause.WRITE_RACE


FLAG = "torch._inductor.config.deterministic"
PADDING, DESCENT = "torch._inductor.config.shape_padding", "torch._inductor.config.coordinate_descent_tuning"
AUTOTUNE, RBLOCK = "torch._inductor.config.max_autotune", "torch._inductor.config.dynamic_scale_rblock"
CONFIGURATIONS = "Triton configurations of reductions"
COMPILED = Event(kind=EventKind.FIRST_USE, name=Subsystem.INDUCTOR.value)
SUM = {"device": "cpu", "dtype": "float32", "ndim": 2}
SUMS, PRODUCT = "aten.sum.default", "aten.mm.default"


def told_of(report: Report) -> set[str]:
    """The settings of Inductor that there are findings about."""
    return {one.name for one in report.findings if one.rule.startswith("environment-inductor")}


def timed_for(op: str, facts: dict[str, Any], *options: str, flag: bool = False) -> Report:
    """A kernel of ``op`` in a region that was compiled with ``options`` on, judged for CUDA."""
    region = {"options": {FLAG: flag, **dict.fromkeys(options, True)}}
    kernel = build.kernel(ops=(op,), atomic=False)
    return judged(kernel, op=op, facts={**SUM, **facts}, region=region, events=(COMPILED,), backend="cuda")


@pytest.mark.parametrize(
    ("op", "facts", "options", "named"),
    [
        (SUMS, {}, (), {CONFIGURATIONS}),
        (SUMS, {"dtype": "int32"}, (), set()),
        (SUMS, {"shape.is_unrolled": True}, (), set()),
        (SUMS, {}, (PADDING, RBLOCK), {CONFIGURATIONS, RBLOCK}),
        (SUMS, {"shape.is_single_sum": True}, (PADDING, RBLOCK), set()),
        (SUMS, {"shape.is_single_sum": True}, (DESCENT,), {DESCENT}),
        ("aten.mul.Tensor", {}, (PADDING,), set()),
        (PRODUCT, {}, (PADDING,), {PADDING}),
        (PRODUCT, {"shape.is_aligned": True}, (PADDING, RBLOCK), set()),
    ],
)
def test_what_inductor_times_is_told_of_ops_that_it_has_something_to_time_for(
    op: str, facts: dict[str, Any], options: tuple[str, ...], named: set[str]
) -> None:
    assert told_of(timed_for(op, facts, *options)) == named


def test_inductors_flag_of_a_region_decides_and_is_what_a_plan_sets() -> None:
    assert told_of(timed_for(SUMS, {}, flag=True)) == set()
    report = timed_for(SUMS, {})
    (found,) = [one for one in report.findings if one.rule.startswith("environment-inductor")]
    assert (found.verdict, found.sets) == (Verdict.CONDITIONAL, {FLAG: True})
    assert told_of(judge(report.judgement.trace, backend="cuda", settings={FLAG: True})) == set()


@pytest.mark.parametrize("is_timed", [None, True])
def test_a_product_for_which_nothing_was_timed_here_is_not_autotuned(is_timed: bool | None) -> None:
    called = build.kernel("extern_kernels.mm", language=KernelLanguage.EXTERN, atomic=None, by_stopwatch=is_timed)
    region = {"options": {FLAG: False, AUTOTUNE: True}}
    report = judged(called, op=PRODUCT, facts=SUM, region=region, events=(COMPILED,))
    assert told_of(report) == ({AUTOTUNE} if is_timed else set())


@pytest.mark.parametrize(("backend", "row"), [("cuda", "cudnn-deterministic"), ("rocm", "miopen-deterministic")])
@pytest.mark.parametrize("is_depthwise", [True, False])
def test_cudnn_computes_no_depthwise_convolution_of_torchs_own(backend: str, row: str, is_depthwise: bool) -> None:
    own = {"conv.own_depthwise": True} if is_depthwise else {}
    call = build.call(op="aten.convolution.default", facts={**SUM, **own, "conv.plain_forward": True})
    settings = build.environment(cudnn_enabled=True, cudnn_deterministic=False)
    report = judge(build.trace(call, environment=settings), backend=backend)
    is_named = f"environment-{row}" in {found.rule for found in report.findings}
    assert is_named is not (is_depthwise and backend == "cuda")


def test_an_op_that_stayed_a_call_is_judged_as_its_eager_kernel() -> None:
    found = only(judged(CALLED))
    assert (found.rule, found.shown, found.runs_as) == ("cpu-index-put", Shown.CALLED, "aten.index_put_")
    assert "The compiled code calls `aten.index_put_.default`." in found.why


def test_code_compiled_under_the_mode_speaks_for_the_mode_alone() -> None:
    off = only(judged(CALLED, **ON, settings="default"))
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
    (change,) = judged(into=(), op="prims.inductor_seeds.default", facts=facts).plan
    assert (change.sets, change.needs) == ({"seed.torch": True}, ())


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


@pytest.mark.parametrize(
    ("kernel", "op"),
    [
        (triton("triton_tem_fused_mm_0", PRODUCT, timed=True, language=KernelLanguage.TEMPLATE), PRODUCT),
        (triton("triton_per_fused_mul_sum_0", "aten.mul.Tensor", SUMS, timed=True), SUMS),
    ],
)
def test_a_kernel_chosen_with_a_stopwatch_can_be_another_one_next_time(kernel: Kernel, op: str) -> None:
    found = only(judged(kernel, **on_cuda(op)))
    assert (found.verdict, found.cause, found.shown) == (Verdict.CONDITIONAL, Cause.AUTOTUNE, Shown.TIMED)
    assert found.rule == "inductor-cuda-chosen-by-timing"


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

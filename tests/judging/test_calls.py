"""Judging counts every call once, orders findings totally, and says unknown where it does not know."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.build import call, environment, trace
from tests.tables.claims import LETTERS
from tests.tables.samples import HEAD, rule_text, table
from tracer.errors import TargetError
from tracer.findings import Finding, Judgement, Statement
from tracer.judging import judge_calls, make_target
from tracer.names import Backend, BlindSpotKind, Cause, DeterministicMode, Phase, Settings, UnknownReason, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.rules import load_translations
from tracer.tables.settings import DEFAULTS
from tracer.tables.target_tables import TargetTables
from tracer.trace.file import Trace
from tracer.trace.records import BlindSpot, CallGroup, CudaDevice, FactValue, TensorForm, TraceSource

FLOAT = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}


def judge(*calls: CallGroup, strict: bool = False, hip: str | None = None, **target: str) -> Judgement:
    """The verdict on ``calls`` for CUDA under torch's defaults, unless ``target`` says otherwise."""
    recorded = trace(*calls, environment=environment(hip=hip, num_threads=8))
    target = {"backend": "cuda", "settings": "default"} | target
    made = make_target(recorded.environment, **target)
    return judge_calls(recorded, load_tables(), made, strict=strict, translations=load_translations())[0]


def found(judgement: Judgement) -> Finding:
    """The one finding."""
    (finding,) = judgement.findings
    return finding


# ---------------------------------------------------------------------------------------------- the target


def test_a_recorded_target_has_the_recordings_version_and_settings() -> None:
    target = make_target(
        environment(
            torch="2.13.0+cu130",
            deterministic_mode=DeterministicMode.WARN,
            fill_uninitialized_memory=False,
            cudnn_enabled=True,
            cudnn_deterministic=True,
            cudnn_benchmark=True,
            num_threads=1,
            variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8", "NCCL_ALGO": "^NVLS"},
        )
    )
    assert (target.backend, target.torch, target.settings) == (Backend.RECORDED, "2.13.0", Settings.RECORDED)
    assert target.conditions == {
        "deterministic_mode": "warn",
        "fill_uninitialized_memory": False,
        "cublas_workspace": "set",
        "cudnn_enabled": True,
        "cudnn_deterministic": True,
        "cudnn_benchmark": True,
        "threads": "one",
        "nccl_nvls": "excluded",
        "inductor_deterministic": False,
        "triton": "not-recorded",
    }


@pytest.mark.parametrize(
    ("config", "serves"),
    [
        (":4096:8", "set"),
        (":16:8", "set"),
        (":4096:2", "recurrent"),
        ("", "unset"),
        (":0:0", "unset"),
        ("4096:8", "unset"),
    ],
)
def test_only_what_torch_accepts_counts_as_a_cublas_workspace(config: str, serves: str) -> None:
    target = make_target(environment(variables={"CUBLAS_WORKSPACE_CONFIG": config}))
    assert target.conditions["cublas_workspace"] == serves


@pytest.mark.parametrize(
    ("op", "config", "verdict"),
    [
        ("aten._cudnn_rnn_backward.default", ":4096:2", "deterministic"),
        ("aten._cudnn_rnn_backward.default", ":0:0", "nondeterministic"),
        ("aten.mm.default", ":4096:2", "raises"),
        ("aten.mm.default", ":16:8", "deterministic"),
    ],
)
def test_recurrent_layers_take_a_workspace_that_products_do_not(op: str, config: str, verdict: str) -> None:
    process = environment(
        torch="2.6.0",
        variables={"CUBLAS_WORKSPACE_CONFIG": config},
        deterministic_mode=DeterministicMode.ON,
        cudnn_enabled=True,
    )
    recorded = trace(call(op, facts={**FLOAT, "device": "cuda"}), environment=process)
    assert judged(recorded, {"backend": "cuda"}).tally.as_is == {verdict: 1}


def test_a_setting_that_could_not_be_read_is_left_out() -> None:
    assert "cudnn_enabled" not in make_target(environment(cudnn_enabled=None)).conditions


@pytest.mark.parametrize(
    ("settings", "mode", "workspace"),
    [("default", "off", "unset"), ("warn", "warn", "unset"), ("deterministic", "on", "set")],
)
def test_named_settings_are_torchs_defaults_but_for_the_mode(settings: str, mode: str, workspace: str) -> None:
    recorded = environment(deterministic_mode=DeterministicMode.ON, cudnn_benchmark=True, num_threads=4)
    conditions = make_target(recorded, settings=settings).conditions
    assert (conditions["deterministic_mode"], conditions["cublas_workspace"]) == (mode, workspace)
    assert conditions["cudnn_benchmark"] is False
    assert conditions["threads"] == "many", "threads are the recorded ones whatever the settings"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"backend": "gpu"}, "choose one of cpu, cuda, rocm, xpu, mps, npu, recorded"),
        ({"settings": "strict"}, "choose one of recorded, default, warn, deterministic"),
        ({"torch": "new"}, "'new' is not a version; write a release such as 2.13"),
        ({"torch": "2"}, "lacks a minor version"),
        ({"torch": ""}, "is not a version"),
    ],
)
def test_a_target_that_does_not_exist_is_refused_with_those_that_do(asked: dict[str, str], says: str) -> None:
    with pytest.raises(TargetError) as error:
        make_target(environment(), **asked)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_trace_with_a_broken_version_can_still_be_judged_for_a_named_one() -> None:
    with pytest.raises(TargetError, match="'main' is not a version"):
        make_target(environment(torch="main"))
    assert make_target(environment(torch="main"), torch="2.9").torch == "2.9.0"


# -------------------------------------------------------------------------------------------- one verdict


DEVICE_NONE, CUDA = {**FLOAT, "device": "none"}, {**FLOAT, "device": "cuda"}
OUTER = {**FLOAT, "subclass": "DTensor"}
SELECTED = {"op": "aten.scatter.src", "phase": "backward"}

#: A call, a target where it is not CUDA, the verdicts as things stand and in the mode, and the rule or what is missing.
VERDICTS: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
    ({}, {}, "ND", "cuda-index-add"),
    ({"op": "aten.avg_pool3d_backward.default", "facts": {**FLOAT, "shape.windows_overlap": False}}, {}, "DR", ""),
    ({"op": "aten.add.Tensor"}, {}, "DD", ""),
    ({"op": "aten.bernoulli_.float"}, {}, "SS", ""),
    ({"op": "aten.nll_loss2d_forward.default"}, {}, "UU", "arg.reduction"),
    ({"op": "flash_attn.fwd.default"}, {}, "UU", "cuda-opaque"),
    # The backward of a selection writes each element once.
    (SELECTED | {"node": "MaxBackward0"}, {}, "DD", ""),
    (SELECTED | {"node": "TopkBackward0"}, {}, "DD", ""),
    (SELECTED | {"node": "ScatterBackward0"}, {}, "CD", "cuda-scatter-src"),
    (SELECTED, {}, "UD", "backward.selects"),
    ({"op": "aten.scatter.src"}, {}, "CD", "cuda-scatter-src"),
    # A subclass whose inner calls were recorded runs no kernel of its own, nor does an op whose body was.
    ({"facts": {**OUTER, "subclass_inner": True}}, {}, "DD", ""),
    ({"facts": OUTER}, {}, "UU", "cuda-opaque"),
    ({"facts": {**OUTER, "subclass_inner": False}}, {}, "UU", "cuda-opaque"),
    ({"op": "higher_order.cond", "facts": {**FLOAT, "body_recorded": True}}, {}, "DD", ""),
    ({"op": "higher_order.cond", "facts": {**FLOAT, "body_recorded": False}}, {}, "UU", "cuda-opaque"),
    # The device: what stands in the trace, or what the target says.
    ({"facts": {**FLOAT, "device": "meta"}}, {"backend": "recorded"}, "DD", ""),
    ({"facts": CUDA}, {"backend": "recorded"}, "ND", "cuda-index-add"),
    ({}, {"backend": "recorded"}, "DD", ""),
    ({"facts": DEVICE_NONE}, {"backend": "recorded"}, "DD", ""),
    ({"facts": CUDA}, {"backend": "recorded", "hip": "7.0"}, "ND", "rocm-cuda-index-add"),
    ({"facts": {"dtype": "float32"}}, {"backend": "recorded"}, "UU", "device"),
    ({"op": "aten.add.Tensor"}, {"torch": "1.10"}, "UU", "cuda-not-reviewed"),
]


@pytest.mark.parametrize(("made", "target", "verdicts", "says"), VERDICTS)
def test_a_call_is_judged_as_things_stand_and_in_deterministic_mode(
    made: dict[str, Any], target: dict[str, str], verdicts: str, says: str
) -> None:
    judgement = judge(call(**({"facts": FLOAT, "count": 3} | made)), **target)
    ((as_is, _),), ((in_mode, count),) = judgement.tally.as_is.items(), judgement.tally.deterministic_mode.items()
    assert (LETTERS[as_is] + LETTERS[in_mode], count) == (verdicts, 3)
    assert len(judgement.findings) == (verdicts != "DD")
    for finding in judgement.findings:
        assert says in (finding.rule, finding.reason_detail, "")
        assert finding.count == 3
        assert finding.why
        assert finding.remedy or finding.verdict is Verdict.UNKNOWN


def test_a_finding_says_what_the_ruling_says() -> None:
    finding = found(judge(call("aten.index_add_.default", facts=FLOAT)))
    assert (finding.backend, finding.cause) == (Backend.CUDA, Cause.ATOMIC_ACCUMULATION)
    assert finding.evidence
    missing = found(judge(call("aten.nll_loss2d_forward.default", facts=FLOAT)))
    assert (missing.reason, missing.reason_detail) == (UnknownReason.FACT_NOT_RECORDED, "arg.reduction")
    opaque = found(judge(call("flash_attn.fwd.default", facts=FLOAT)))
    assert (opaque.reason, opaque.cause) == (UnknownReason.OPAQUE, Cause.OPAQUE)
    assert opaque.reason_detail == "flash_attn.fwd.default"
    older = found(judge(call("aten.add.Tensor", facts=FLOAT), torch="1.10"))
    assert older.reason is UnknownReason.TABLE_NOT_REVIEWED
    assert set(judge(call(facts=CUDA), call(facts=FLOAT), backend="recorded").tables) == {"cuda", "cpu"}


ATTENTION_BACKWARD = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"
HALF = {**FLOAT, "dtype": "bfloat16"}


def test_an_op_of_the_cpu_alone_is_judged_as_what_it_becomes_and_keeps_its_name() -> None:
    finding = found(judge(call(ATTENTION_BACKWARD, facts=FLOAT)))
    assert (finding.rule, finding.op) == ("cuda-efficient-attention-backward", ATTENTION_BACKWARD)
    assert finding.runs_as == "aten._scaled_dot_product_efficient_attention_backward"
    assert finding.verdict is Verdict.NONDETERMINISTIC
    assert "exists on the CPU alone" in finding.why
    assert any("sdp_utils.cpp" in row.ref for row in finding.evidence), "why it becomes that op"
    assert any("attention_backward.cu" in row.ref for row in finding.evidence), "why that op varies"
    assert judge(call(ATTENTION_BACKWARD, facts=FLOAT), backend="cpu").findings == ()


SAFE_SOFTMAX = {"phase": "backward", "node": "SafeSoftmaxBackward0"}
SOFTMAX_BACKWARD = "aten._softmax_backward_data.default"
RECURRENT, GATES = {"module.recurrent": True}, {"operands.row_within": True, "shape.no_elements": False}
SAMPLED = {"arg.interpolation_mode": "bilinear", "arg.padding_mode": "zeros", "arg.align_corners": True}
SAMPLED |= {"arg.output_mask0": True}
SAMPLER = ("aten.grid_sampler_2d_backward.default", {"phase": "backward", "node": "GridSampler2DBackward0"})
UNMASKED = {"dtype": "bfloat16", "given.attn_mask": False}

#: A call of an op, further fields, facts, the target, what it runs as there, and its verdicts.
TRANSLATED: list[tuple[str, dict[str, str], dict[str, FactValue], dict[str, str], str, str]] = [
    (ATTENTION_BACKWARD, {}, {}, {}, "EFFICIENT", "ND"),
    # Where hardware decides and is not known, every candidate is named, and the worst verdict stands.
    (ATTENTION_BACKWARD, {}, UNMASKED, {}, "FLASH or CUDNN or EFFICIENT", "ND"),
    (ATTENTION_BACKWARD, {}, {**UNMASKED, "given.attn_mask": True}, {}, "EFFICIENT or CUDNN", "ND"),
    (SOFTMAX_BACKWARD, SAFE_SOFTMAX, {}, {}, "EFFICIENT or aten._softmax_backward_data", "ND"),
    (SOFTMAX_BACKWARD, {"phase": "backward", "node": "SoftmaxBackward0"}, {}, {}, "", "DD"),
    (ATTENTION_BACKWARD, {}, {}, {"torch": "1.13"}, "scaled_dot_product_attention", "UU"),
    # Nobody translated for these.
    (ATTENTION_BACKWARD, {}, {}, {"backend": "xpu"}, "scaled_dot_product_attention", "UU"),
    (ATTENTION_BACKWARD, {}, {}, {"backend": "npu"}, "scaled_dot_product_attention", "UU"),
    (ATTENTION_BACKWARD, {}, {}, {"backend": "cpu"}, "", "DD"),
    # A recurrent layer that is computed step by step is one call of cuDNN; the products of a cell add no bias.
    ("aten.addmm.default", {}, RECURRENT, {}, "aten._cudnn_rnn", "NN"),
    ("aten.addmm.default", {}, {}, {}, "", "DD"),
    (
        "aten.mm.default",
        {"phase": "backward", "node": "AddmmBackward0"},
        RECURRENT,
        {},
        "aten._cudnn_rnn_backward",
        "NN",
    ),
    ("aten.mm.default", {"phase": "backward", "node": "AddmmBackward0"}, {}, {}, "", "DD"),
    ("aten.addmm.default", {}, {**GATES, "module.fuses_gates": True}, {"torch": "2.9"}, "aten.mm", "CR"),
    ("aten.addmm.default", {}, GATES, {"torch": "2.9"}, "", "CC"),
    # A candidate is judged on the target's device: cuDNN's sampler was not refused before 2.12.
    (*SAMPLER, SAMPLED, {"torch": "2.6"}, "aten.cudnn_grid_sampler_backward", "NN"),
    (*SAMPLER, {**SAMPLED, "arg.padding_mode": "border"}, {"torch": "2.6"}, "", "NR"),
    # What ran on the target itself is never translated.
    *(
        (op, {}, facts, {"backend": backend}, "", "")
        for op in (ATTENTION_BACKWARD, "aten.mkldnn_rnn_layer.default", "aten.grid_sampler_2d.default")
        for facts, backend in (({"device": "cuda"}, "cuda"), ({}, "recorded"))
    ),
]


@pytest.mark.parametrize(("op", "fields", "facts", "target", "runs_as", "verdicts"), TRANSLATED)
def test_a_call_of_the_cpu_is_judged_as_what_it_becomes(
    op: str,
    fields: dict[str, str],
    facts: dict[str, FactValue],
    target: dict[str, str],
    runs_as: str,
    verdicts: str,
) -> None:
    judgement = judge(call(op, facts=FLOAT | facts, **fields), **target)
    ((as_is, _),), ((in_mode, _),) = judgement.tally.as_is.items(), judgement.tally.deterministic_mode.items()
    assert verdicts in (LETTERS[as_is] + LETTERS[in_mode], "")
    for kind in ("flash", "cudnn", "efficient"):
        runs_as = runs_as.replace(kind.upper(), f"aten._scaled_dot_product_{kind}_attention_backward")
    assert {finding.runs_as for finding in judgement.findings} <= {runs_as}
    assert judgement.findings or not runs_as


def test_hardware_that_the_recording_saw_narrows_the_candidates() -> None:
    recorded = trace(
        call(ATTENTION_BACKWARD, facts={**HALF, "given.attn_mask": False}),
        environment=environment(devices=(CudaDevice(name="A100", capability="8.0"),)),
    )
    target = make_target(recorded.environment, backend="cuda", settings="default")
    assert target.conditions["capability"] == "8.x"
    runs_as = found(judge_calls(recorded, load_tables(), target, translations=load_translations())[0]).runs_as
    assert "cudnn" not in runs_as
    assert "flash" in runs_as


def test_a_refusal_that_other_hardware_would_not_meet_is_conditional() -> None:
    """Of bfloat16 with shared heads flash attention makes one kernel from sm_80 on, and two products below."""
    shared = {**HALF, "given.attn_mask": False, "sdp.shares_heads": True}
    for torch_version, expected in (("2.9", Verdict.CONDITIONAL), ("2.13", Verdict.DETERMINISTIC)):
        finding = found(judge(call(ATTENTION_BACKWARD, facts=shared), torch=torch_version))
        assert finding.deterministic_mode is expected
    masked = found(judge(call(ATTENTION_BACKWARD, facts={**shared, "given.attn_mask": True}), torch="2.9"))
    assert masked.deterministic_mode is Verdict.RAISES  # on any hardware


def counting(**place: str) -> list[CallGroup]:
    """Whole numbers are converted, then counted: as transformers' experts do on a CPU."""
    floats = {**FLOAT, "ndim": 1, "shape.numel_gt_16777216": False}
    whole = {**FLOAT, "ndim": 1, "dtype": "int64"}
    return [
        call("aten._to_copy.default", facts=whole, **(place | {"location": place["location"] + "0"})),
        call("aten.histc.default", facts=floats, **place),
    ]


def test_a_count_that_a_library_may_make_of_whole_numbers_on_the_target_is_conditional() -> None:
    line = {"location": "transformers/integrations/moe.py:27", "function": "experts", "called_from": "train.py:7"}
    for torch_version in ("2.9", "2.13"):
        finding = found(judge(*counting(**line), torch=torch_version))
        assert (finding.verdict, finding.deterministic_mode) == (Verdict.DETERMINISTIC, Verdict.CONDITIONAL)
    assert found(judge(*counting(**line), torch="2.7")).deterministic_mode is Verdict.RAISES  # refuses every dtype
    own = {"location": "train.py:27", "function": "count"}
    assert found(judge(*counting(**own))).deterministic_mode is Verdict.RAISES


def test_the_reader_is_told_that_the_worst_candidate_stands_and_which_kernel_to_ask_about() -> None:
    worst = found(judge(call(SOFTMAX_BACKWARD, facts=FLOAT, **SAFE_SOFTMAX)))
    assert worst.why.endswith("the worst verdict is reported.")
    early = found(judge(call(ATTENTION_BACKWARD, facts=FLOAT), torch="1.13"))
    assert early.reason is UnknownReason.NO_EVIDENCE
    assert "came with 2.0" in early.why
    assert "was not established" in found(judge(call(ATTENTION_BACKWARD, facts=FLOAT), backend="xpu")).why
    assert "aclnnFlashAttentionScoreGrad" in found(judge(call(ATTENTION_BACKWARD, facts=FLOAT), backend="npu")).why


def verdict_without_workspace(facts: dict[str, FactValue], op: str, **recorded: FactValue) -> Verdict:
    settings = {**DEFAULTS, "deterministic_mode": "on", "cublas_workspace": "unset"}
    tables = TargetTables(
        load_tables(),
        Backend.CUDA,
        "2.9",
        settings,
        translations=load_translations(),
        recorded={**settings, **recorded},
    )
    return tables.rule_on(call(op, facts={**FLOAT, **facts})).verdict


def test_cudnn_that_was_off_in_the_whole_recording_is_a_setting_of_the_target_and_off_around_one_call_is_not() -> None:
    off = {"conv.without_cudnn": True, "conv.plain_forward": True}
    assert verdict_without_workspace(off, "aten.convolution.default") is Verdict.RAISES
    assert verdict_without_workspace(off, "aten.convolution.default", cudnn_enabled=False) is Verdict.DETERMINISTIC


def test_float32_attention_without_the_memory_efficient_kernel_is_two_products() -> None:
    op = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    plain: dict[str, FactValue] = {"arg.dropout": False, "given.attn_mask": False}
    assert verdict_without_workspace({**plain, "sdp.efficient_off": True}, op) is Verdict.RAISES
    assert verdict_without_workspace(plain, op) is Verdict.DETERMINISTIC
    halved = {**plain, "sdp.efficient_off": True, "dtype": "bfloat16"}
    assert verdict_without_workspace(halved, op) is Verdict.DETERMINISTIC


@pytest.mark.parametrize(("fused", "risks"), [([True], 1), ([False], 0), ([True, False], 1)])
def test_attention_that_the_step_itself_restricts_to_the_math_route_stays_there(fused: list[bool], risks: int) -> None:
    forward = [call("aten._safe_softmax.default", facts={**FLOAT, "sdp.fused": allowed}) for allowed in fused]
    backward = call("aten._softmax_backward_data.default", phase="backward", node="SafeSoftmaxBackward0", facts=FLOAT)
    judgement = judge(backward, *forward)
    assert judgement.tally["nondeterministic"] == risks
    if fused == [True]:
        assert found(judgement).runs_as == "aten._scaled_dot_product_efficient_attention_backward"


@pytest.mark.parametrize(("stride", "risks"), [((64, 0, 8, 1), 0), ((0, 64, 8, 1), 0), ((64, 64, 1, 8), 1)])
def test_attention_whose_keys_are_broadcast_stays_on_the_math_route(stride: tuple[int, ...], risks: int) -> None:
    keys = TensorForm(dtype="float32", shape=(2, 4, 8, 8), stride=stride)
    four: dict[str, FactValue] = {**FLOAT, "ndim": 4}
    forward = [
        call("aten.mul.Scalar", facts=four),
        call("aten.clone.default", facts=four, given={"self": keys}),
        call("aten._safe_softmax.default", facts={**four, "sdp.fused": True}),
    ]
    backward = call("aten._softmax_backward_data.default", phase="backward", node="SafeSoftmaxBackward0", facts=four)
    assert judge(*forward, backward).tally["nondeterministic"] == risks


def test_deterministic_mode_has_candidates_of_its_own() -> None:
    facts = {**HALF, "given.attn_mask": False}
    on = found(judge(call(ATTENTION_BACKWARD, facts=facts), settings="deterministic", torch="2.2"))
    assert "cudnn" not in on.runs_as
    assert judge(call(ATTENTION_BACKWARD, facts=facts), settings="deterministic").findings == ()


@pytest.mark.parametrize("device", ["mps", "npu", "other"])
def test_a_device_without_a_table_is_unknown(device: str) -> None:
    recorded = trace(call(facts={**FLOAT, "device": device}))
    only_cuda = {Backend.CUDA: load_tables()[Backend.CUDA]}
    judgement = judge_calls(recorded, only_cuda, make_target(recorded.environment))[0]
    assert found(judgement).reason is UnknownReason.NO_TABLE
    assert found(judgement).rule.endswith("-no-table")
    assert f"There is no table for {device}: its calls are unknown." in judgement.banners


def test_a_newer_torch_has_the_newest_verdicts_marked() -> None:
    judgement = judge(call(facts=FLOAT), torch="3.1")
    newest = judge(call(facts=FLOAT), torch="2.15")
    assert found(judgement).extrapolated
    assert not found(newest).extrapolated
    assert found(judgement).verdict is found(newest).verdict
    assert "extrapolated" in judgement.banners[0]
    assert not any("extrapolated" in banner for banner in newest.banners)
    older = judge(call("aten.add.Tensor", facts=FLOAT), torch="1.10")
    assert "is older than those: its calls are unknown." in older.banners[0]


def test_strict_judging_does_not_extrapolate() -> None:
    judgement = judge(call(facts=FLOAT), torch="3.1", strict=True)
    assert found(judgement).reason is UnknownReason.TABLE_NOT_REVIEWED
    assert "strict" in judgement.banners[0]
    assert judge(call(facts=FLOAT), torch="2.15", strict=True).tally["nondeterministic"] == 1


def test_an_allow_list_holds_what_it_does_not_name_for_unknown() -> None:
    allow = table(head=HEAD + "deny_list = false\n")
    recorded = trace(call("aten.add.Tensor", facts=FLOAT))
    target = make_target(recorded.environment, backend="cuda")
    finding = found(judge_calls(recorded, {Backend.CUDA: allow}, target)[0])
    assert (finding.rule, finding.cause) == ("cuda-unlisted", Cause.VENDOR_UNLISTED)


# --------------------------------------------------------------------------------------------- banners


def test_what_is_missing_is_said_first() -> None:
    recorded = trace(
        call("aten.add.Tensor", facts=FLOAT),
        sources=(TraceSource(partial="interrupted"),),
        blind_spots=(BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail="3 calls", count=3),),
        differing_settings=("cudnn_benchmark",),
    )
    target = make_target(recorded.environment, backend="cuda")
    judgement = judge_calls(recorded, load_tables(), target)[0]
    assert [b.split()[0] for b in judgement.banners] == ["The", "Recorded", "Backward", "The"]
    assert "interrupted" in judgement.banners[0]
    assert "cudnn_benchmark" in judgement.banners[3]
    assert judgement.trace.blind_spots == recorded.blind_spots
    assert judgement.trace.sources == recorded.sources


@pytest.mark.parametrize(
    ("device", "backend", "said"),
    [("cpu", "cuda", True), ("cuda", "cuda", False), ("cpu", "cpu", False), ("cuda", "rocm", False)],
)
def test_a_recording_from_another_device_is_said_to_be_one(device: str, backend: str, said: bool) -> None:
    banners = judge(call("aten.add.Tensor", facts={**FLOAT, "device": device}), backend=backend).banners
    assert any(b.startswith(f"Recorded on {device}, judged for {backend}") for b in banners) is said
    recorded = judge(call("aten.add.Tensor", facts={**FLOAT, "device": device}), backend="recorded")
    assert not any(b.startswith("Recorded on") for b in recorded.banners)


# ----------------------------------------------------------------------------------- tally and order

GROUPS = st.builds(
    call,
    op=st.sampled_from(
        [
            "aten.add.Tensor",
            "aten.index_add_.default",
            "aten.scatter.src",
            "aten.nll_loss2d_forward.default",
            "aten.histc.default",
            "aten.rand.default",
            "mine.op.default",
            "aten._safe_softmax.default",
            "aten._softmax_backward_data.default",
            "aten.mm.default",
        ]
    ),
    phase=st.sampled_from(list(Phase)),
    module=st.sampled_from(["", "net", "net.fc"]),
    location=st.sampled_from(["", "a.py:1", "a.py:2"]),
    called_from=st.sampled_from(["", "b.py:1"]),
    count=st.integers(1, 5),
    node=st.sampled_from(["", "MaxBackward0", "IndexBackward0", "SafeSoftmaxBackward0"]),
    facts=st.fixed_dictionaries(
        {},
        optional={
            "device": st.sampled_from(["cpu", "cuda", "mps", "meta"]),
            "dtype": st.sampled_from(["float32", "float16", "int64"]),
            "arg.reduction": st.sampled_from(["none", "mean"]),
            "sdp.fused": st.booleans(),
            "module.recurrent": st.just(True),
            "subclass": st.just("Wrapper"),
        },
    ),
)
TARGETS = st.fixed_dictionaries(
    {
        "backend": st.sampled_from(["cuda", "cpu", "recorded", "npu"]),
        "torch": st.sampled_from(["1.10", "1.12", "2.6", "2.13", "2.20"]),
        "settings": st.sampled_from(list(Settings)),
    }
)


def judged(recorded: Trace, target: dict[str, str]) -> Judgement:
    made = make_target(recorded.environment, **target)
    return judge_calls(recorded, load_tables(), made, translations=load_translations())[0]


@given(st.lists(GROUPS, min_size=1, max_size=8), TARGETS)
def test_every_call_is_counted_exactly_once(groups: list[CallGroup], target: dict[str, str]) -> None:
    recorded = trace(*groups)
    judgement = judged(recorded, target)
    tally = judgement.tally
    assert tally.total == recorded.call_count
    assert sum(tally.deterministic_mode.values()) == recorded.call_count
    for pivot in (tally.by_phase, tally.by_module):
        assert sum(n for counts in pivot.values() for n in counts.values()) == recorded.call_count
    for phase, counts in tally.by_phase.items():
        assert sum(counts.values()) == sum(g.count for g in groups if g.phase is phase)
    for verdict in Verdict:
        if verdict is not Verdict.DETERMINISTIC:
            assert tally[verdict] == sum(f.count for f in judgement.findings if f.verdict is verdict)


@given(st.lists(GROUPS, min_size=1, max_size=8), TARGETS, st.randoms(use_true_random=False))
def test_the_order_of_the_trace_does_not_matter(
    groups: list[CallGroup], target: dict[str, str], dice: random.Random
) -> None:
    shuffled = list(groups)
    dice.shuffle(shuffled)
    first, second = judged(trace(*groups), target), judged(trace(*shuffled), target)
    assert first.findings == second.findings
    assert first.tally == second.tally


@given(st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(dice: random.Random) -> None:
    rules = [rule_text(id=f"cuda-r{i}", ops=f'["aten.op{i}"]') for i in range(4)]
    groups = [call(f"aten.op{i}.default", facts=FLOAT) for i in range(5)]
    recorded = trace(*groups)
    target = make_target(recorded.environment, backend="cuda")
    plain = judge_calls(recorded, {Backend.CUDA: table(*rules)}, target)[0]
    dice.shuffle(rules)
    assert judge_calls(recorded, {Backend.CUDA: table(*rules)}, target)[0] == plain


def test_the_worst_come_first() -> None:
    judgement = judge(
        call("aten.rand.default", facts=FLOAT),
        call("mine.op.default", facts=FLOAT),
        call("aten.index_copy.default", facts={**FLOAT, "index.one_value": False}),
        call("aten.index_add.default", facts=FLOAT, count=1),
        call("aten.index_add_.default", facts=FLOAT, count=7),
        call("aten.put_.default", facts={**FLOAT, "arg.accumulate": True, "index.one_value": False}),
        call("aten.max_unpool2d.default", facts=FLOAT),
    )
    assert [(f.verdict.value, f.deterministic_mode.value, f.count) for f in judgement.findings] == [
        ("nondeterministic", "raises", 1),
        ("nondeterministic", "deterministic", 7),
        ("nondeterministic", "deterministic", 1),
        ("conditional", "raises", 1),
        ("conditional", "deterministic", 1),
        ("unknown", "unknown", 1),
        ("seeded", "seeded", 1),
    ]


def test_groups_that_differ_in_facts_alone_are_one_finding() -> None:
    half = {**FLOAT, "dtype": "float16"}
    finding = found(judge(call(facts=FLOAT, count=2), call(facts=half, count=3)))
    assert finding.count == 5
    assert "dtype" not in finding.facts, "they disagree on it"
    assert finding.facts["layout"] == "strided"


def test_groups_with_another_verdict_stay_apart() -> None:
    facts = [{**FLOAT, "arg.accumulate": accumulate, "index.one_value": False} for accumulate in (True, False)]
    judgement = judge(*(call("aten.put_.default", facts=f) for f in facts))
    assert [f.verdict for f in judgement.findings] == [Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL]


@pytest.mark.parametrize("where", ["at its line", "elsewhere"])
def test_a_call_inside_an_op_that_is_made_of_others_is_held_against_its_line_once(where: str) -> None:
    whole = call("aten.conv2d.default", location="net.py:3", facts={**FLOAT, "ndim": 4, "body_recorded": True})
    inner = call("aten.convolution.default", location="net.py:3" if where == "at its line" else "net.py:4")
    inner = replace(inner, facts={**FLOAT, "ndim": 4})
    settings = {"deterministic_mode": "off", "cudnn_benchmark": True, "cudnn_deterministic": False}
    judgement = judge(whole, inner, settings=settings)
    ops = {finding.op for finding in judgement.findings if finding.rule == "cuda-convolution"}
    assert ops == {inner.op} | ({whole.op} if where == "elsewhere" else set())


@pytest.mark.parametrize("settings", ["default", "deterministic"])
def test_a_finding_takes_over_all_that_the_ruling_on_its_calls_says(settings: str) -> None:
    recorded = trace(call(facts=FLOAT), call("aten.put_.default", facts=FLOAT), environment=environment(num_threads=8))
    target = make_target(recorded.environment, backend="cuda", settings=settings)
    judgement, calls = judge_calls(recorded, load_tables(), target, translations=load_translations())
    rulings = {ruling.rule: ruling for _, ruling in calls if not ruling.is_safe}
    assert {finding.rule for finding in judgement.findings} == rulings.keys() != set()
    for finding in judgement.findings:
        said = {name: getattr(finding, name) for name in Statement.__struct_fields__}
        assert said == {name: getattr(rulings[finding.rule], name) for name in Statement.__struct_fields__}

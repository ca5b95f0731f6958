"""The tables for Ascend, AMD, Intel and Apple devices: the vendor's 49 APIs, a real step, what people meet first."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.build import call, environment, trace
from tests.support.command import Command
from tests.tables.claims import LETTERS
from tracer import DeterminismTracer, Trace, judge
from tracer.findings import Finding
from tracer.judging import judge_calls, make_target
from tracer.names import About, Backend, Cause, EvidenceKind, UnknownReason, Verdict
from tracer.report import Report
from tracer.tables.conditions import wanted_values
from tracer.tables.loading import load_table, load_tables, named_variables
from tracer.tables.rules import Case, Rule, strongest
from tracer.tables.target_tables import BoundTable

TABLE = load_table(Backend.NPU)

KERNELS = Path(__file__).parents[1] / "data" / "cann_kernels.csv"

APIS = {api: [rule for rule in TABLE.rule if api in rule.apis] for rule in TABLE.rule for api in rule.apis}

#: Dropped from the list that first spoke of the mode being off: nothing is known by default.
DROPPED = ("torch_npu.npu_convolution", "torch_npu.npu_ps_roi_pooling", "torch_npu.npu_group_norm_swish")

#: What only an NPU runs as one op: the vendor's own, and composites of torch's; forward and backward.
ONE_OP_THERE = {
    "torch_npu.npu_convolution_transpose": "npu.npu_convolution_transpose npu.npu_convolution_transpose_backward",
    "torch_npu.npu_convolution": "npu.npu_convolution npu.npu_convolution_backward",
    "torch_npu.npu_linear": "npu.npu_linear npu.npu_linear_backward",
    "torch_npu.npu_deformable_conv2d": "npu.npu_deformable_conv2d npu.npu_deformable_conv2dbk",
    "torch_npu.npu_ps_roi_pooling": "npu.npu_ps_roi_pooling npu.npu_ps_roi_pooling_backward",
    "torch_npu.npu_group_norm_swish": "npu.npu_group_norm_swish",
    "torch.nn.functional.l1_loss": "aten.l1_loss npu.l1_loss_backward",
    "torch.nn.functional.kl_div": "aten.kl_div npu.kl_div_backward npu.kl_div_target_backward",
}


def x(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def places(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def convolve() -> torch.Tensor:
    return F.conv2d(x(1, 2, 5, 5), x(3, 2, 3, 3), x(3))


def put() -> torch.Tensor:
    return x(3, 3).clone().put_(places(0, 4), x(2))


def nll_loss_2d() -> torch.Tensor:
    with pytest.warns(FutureWarning):
        loss = torch.nn.NLLLoss2d()
    return loss(x(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long))


#: Each API of the list that torch itself has, called once; its gradient is taken too.
NATIVE: dict[str, Callable[[], torch.Tensor]] = {
    "torch.nn.functional.batch_norm": lambda: F.batch_norm(x(4, 3), torch.zeros(3), torch.ones(3), training=True),
    "torch.nn.functional.binary_cross_entropy": lambda: F.binary_cross_entropy(x(3), torch.ones(3)),
    "torch.nn.functional.ctc_loss": lambda: F.ctc_loss(
        x(5, 2, 4).log_softmax(2), torch.ones(2, 3, dtype=torch.long), (5, 5), (3, 2)
    ),
    "torch.cumsum": lambda: torch.cumsum(x(3), 0),
    "torch.dot": lambda: torch.dot(x(3), x(3)),
    "torch.matmul": lambda: torch.matmul(x(2, 3, 4), x(2, 4, 3)),
    "torch.nn.functional.embedding": lambda: F.embedding(places(0, 1), x(3, 4)),
    "torch.nn.functional.nll_loss": lambda: F.nll_loss(x(2, 3), places(0, 1)),
    "torch.nn.functional.prelu": lambda: F.prelu(x(2, 3), x(3)),
    "torch.mean": lambda: torch.mean(x(3)),
    "torch.nn.functional.adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(x(1, 2, 6, 6), 3),
    "torch.nn.functional.avg_pool2d": lambda: F.avg_pool2d(x(1, 2, 6, 6), 2),
    "torch.nn.functional.binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(
        x(3), torch.ones(3)
    ),
    "torch.nn.functional.mse_loss": lambda: F.mse_loss(x(3), torch.ones(3)),
    "torch.addbmm": lambda: torch.addbmm(x(3, 5), x(2, 3, 4), x(2, 4, 5)),
    "torch.Tensor.addbmm_": lambda: x(3, 5).clone().addbmm_(x(2, 3, 4), x(2, 4, 5)),
    "torch.addmv": lambda: torch.addmv(x(3), x(3, 4), x(4)),
    "torch.Tensor.addmv_": lambda: x(3).clone().addmv_(x(3, 4), x(4)),
    "torch.nn.functional.smooth_l1_loss": lambda: F.smooth_l1_loss(x(3), torch.ones(3)),
    "torch.addmm": lambda: torch.addmm(x(3, 5), x(3, 4), x(4, 5)),
    "torch.Tensor.addmm": lambda: x(3, 5).addmm(x(3, 4), x(4, 5)),
    "torch.mm": lambda: torch.mm(x(3, 4), x(4, 5)),
    "torch.bmm": lambda: torch.bmm(x(2, 3, 4), x(2, 4, 5)),
    "torch.nn.functional.layer_norm": lambda: F.layer_norm(x(3, 4), (4,), x(4), x(4)),
    "Tensor.put_": put,
    "torch.Tensor.index_put": lambda: x(4).index_put((places(0, 1),), x(2)),
    "torch.Tensor.index_put_": lambda: x(4).clone().index_put_((places(0, 1),), x(2)),
    "torch.ops.aten.convolution_backward": convolve,
    "torch.nn.NLLLoss2d": nll_loss_2d,
    "torch.nn.functional.fold": lambda: F.fold(x(1, 12, 4), (3, 3), 2),
    "torch.nn.functional.unfold": lambda: F.unfold(x(1, 3, 4, 4), 2),
    "torch.nn.functional.multilabel_margin_loss": lambda: F.multilabel_margin_loss(x(1, 3), places(0, -1, 0)[None]),
    "torch.std_mean": lambda: torch.std_mean(x(3, 4), 1)[0],
    "torch.std": lambda: torch.std(x(3, 4), 1),
    "torch.var_mean": lambda: torch.var_mean(x(3, 4), 1)[0],
    "torch.var": lambda: torch.var(x(3, 4), 1),
    "torch.sum": lambda: torch.sum(x(3)),
    "torch.nn.functional.interpolate": lambda: F.interpolate(x(1, 2, 4, 4), scale_factor=2, mode="bilinear"),
    "torch.nn.functional.soft_margin_loss": lambda: F.soft_margin_loss(x(3), torch.ones(3)),
    "torch.trace": lambda: torch.trace(x(3, 3)),
    "torch.mv": lambda: torch.mv(x(3, 4), x(4)),
}


def judged(recorded: Trace, settings: str = "default") -> Report:
    return judge(recorded, backend="npu", torch="2.13", settings=settings)


def of_calls(report: Report) -> list[Finding]:
    """The findings that are not about the process."""
    return [finding for finding in report.findings if finding.about is About.CALL]


def test_the_list_has_49_names_and_each_stands_in_a_rule() -> None:
    names = {*NATIVE, *ONE_OP_THERE}
    assert len(names) == 49
    assert names <= set(APIS)


@pytest.mark.parametrize("api", NATIVE)
def test_a_listed_api_varies_by_default_and_is_repeatable_in_deterministic_mode(api: str) -> None:
    with DeterminismTracer() as tracer:
        NATIVE[api]().sum().backward()
    mine = {rule.id for rule in APIS[api]}
    found = [finding for finding in judged(tracer.trace).findings if finding.rule in mine]
    assert found
    for finding in found:
        assert finding.verdict is Verdict.NONDETERMINISTIC
        assert finding.deterministic_mode is Verdict.DETERMINISTIC
    on = judged(tracer.trace, "deterministic").findings
    assert not [finding for finding in on if finding.rule in mine and finding.verdict is not Verdict.DETERMINISTIC]


@pytest.mark.parametrize("api", ONE_OP_THERE)
def test_an_op_that_only_npus_have_is_known_forward_and_backward(api: str) -> None:
    ops = {f"{op}.default" for op in ONE_OP_THERE[api].split()}
    findings = of_calls(judged(trace(*(call(op, facts={"device": "npu", "dtype": "float32"}) for op in ops))))
    assert ops == {finding.op for finding in findings}
    expected = Verdict.UNKNOWN if api in DROPPED else Verdict.NONDETERMINISTIC
    assert {(finding.verdict, finding.deterministic_mode) for finding in findings} == {
        (expected, Verdict.DETERMINISTIC)
    }


def test_what_no_list_speaks_of_by_default_says_so() -> None:
    (finding,) = of_calls(judged(trace(call("npu.npu_convolution.default"))))
    assert finding.reason is UnknownReason.NO_EVIDENCE
    assert "said nowhere" in finding.why


def test_the_gradient_of_a_dropped_op_is_known_from_the_list_of_kernels() -> None:
    (finding,) = of_calls(judged(trace(call("npu.npu_group_norm_swish_grad.default"))))
    assert (finding.verdict, finding.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)


@pytest.mark.parametrize("op", ["aten.linalg_ldl_solve.default", "aten._fft_c2c.default", "aten.addmm_.default"])
def test_an_op_on_no_list_is_unknown_in_either_mode_and_says_what_to_ask(op: str) -> None:
    (finding,) = judged(trace(call(op))).findings
    assert (finding.verdict, finding.deterministic_mode) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert (finding.reason, finding.cause) == (UnknownReason.UNLISTED, Cause.VENDOR_UNLISTED)
    assert f"which kernel of CANN `{op.removesuffix('.default')}` runs" in finding.remedy


def test_the_gradient_of_a_convolution_varies_and_its_forward_pass_rests_on_the_list_of_kernels() -> None:
    with DeterminismTracer() as tracer:
        convolve().sum().backward()
    verdicts = {finding.op: finding.verdict for finding in judged(tracer.trace).findings}
    assert "aten.convolution.default" not in verdicts
    assert verdicts["aten.convolution_backward.default"] is Verdict.NONDETERMINISTIC
    rule = TABLE.find("aten.convolution.default")
    assert rule is not None
    assert strongest(rule.evidence) is EvidenceKind.VENDOR_KERNEL_LIST


def test_how_many_calls_rest_on_the_list_of_kernels_leads_the_report() -> None:
    dense = {"device": "npu", "dtype": "float32", "layout": "strided", "ndim": 2}
    product = call("aten.mul.Tensor", count=2, facts=dense)
    banners = judged(trace(call("aten._softmax.default", count=3, facts=dense), product)).judgement.banners
    told = "Of the 5 calls that are deterministic on npu, 3 are so by the vendor's list of kernels only"
    assert any(banner.startswith(told) for banner in banners)
    assert not [banner for banner in judged(trace(product)).judgement.banners if "list of kernels" in banner]


def statuses() -> dict[str, set[str]]:
    """What CANN's list says of each kernel that a rule names: a status for each release and chip that has it."""
    with KERNELS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["kernel"]: {status for column, status in row.items() if column != "kernel"} - {"", "-"} for row in rows}


def test_a_rule_that_names_kernels_says_what_the_vendors_list_says_of_them() -> None:
    def agrees(rule: Rule) -> bool:
        said = set.union(*(listed[name] for names in rule.kernels.values() for name in names.split(", ")))
        as_is = {case.verdict for case in rule.case if "off" in wanted_values(case, "deterministic_mode")}
        if Verdict.NONDETERMINISTIC in as_is:
            return bool(said & {"nondet_configurable", "nondet_unstated"})
        return said == {"det_default"}  # every kernel, on every chip and in every release

    listed, naming = statuses(), [rule for rule in TABLE.rule if rule.kernels]
    assert naming
    assert [rule.id for rule in naming if not agrees(rule)] == []


def test_no_verdict_is_better_than_what_the_vendor_says_of_its_kin() -> None:
    """torch_npu's list calls `mm` and `bmm` random by default: a product that only the kernel list calls deterministic
    is not known to be so."""
    for op in ("aten.baddbmm.default", "aten.vdot.default", "npu.npu_grouped_matmul.default", "aten.cdist.default"):
        (finding,) = of_calls(judged(trace(call(op))))
        assert (finding.verdict, finding.deterministic_mode) == (Verdict.UNKNOWN, Verdict.DETERMINISTIC)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_the_math_route_of_attention_is_known_only_where_an_npu_took_it(device: str) -> None:
    facts = {"device": device, "dtype": "float32", "layout": "strided", "ndim": 4}
    backward = call("aten._softmax_backward_data.default", phase="backward", node="SafeSoftmaxBackward0", facts=facts)
    tally = judged(trace(call("aten._safe_softmax.default", facts=facts), backward)).tally
    assert tally[Verdict.DETERMINISTIC if device == "npu" else Verdict.UNKNOWN] == 2


def test_nothing_raises_on_an_npu_and_warning_counts_as_on() -> None:
    def is_sound(case: Case) -> bool:
        modes = wanted_values(case, "deterministic_mode")
        return case.verdict is not Verdict.RAISES and ("warn" in modes) is ("on" in modes)

    assert [rule.id for rule in TABLE.rule if not all(map(is_sound, rule.case))] == []


def test_no_rule_rests_on_torchs_version() -> None:
    assert not [rule.id for rule in TABLE.rule for case in rule.case if case.torch]


def test_the_variables_that_decide_on_collectives_may_be_recorded() -> None:
    assert {"HCCL_DETERMINISTIC", "HCCL_ALGO", "LCCL_DETERMINISTIC"} <= named_variables()


def test_a_sum_over_ranks_varies_and_moving_bits_does_not() -> None:
    def verdicts(op: str, dtype: str) -> tuple[Verdict, Verdict]:
        report = judged(trace(call(op, facts={"device": "npu", "dtype": dtype})))
        ((as_is, _),), ((on, _),) = report.tally.as_is.items(), report.tally.deterministic_mode.items()
        return as_is, on

    assert verdicts("c10d.allreduce_.default", "float32") == (Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)
    assert verdicts("c10d.allreduce_.default", "int64") == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)
    assert verdicts("c10d.broadcast_.default", "float32") == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


#: One training step of a GPT-2 with dropout, gradient clipping and AdamW.
GPT2 = Path(__file__).parents[1] / "golden" / "judgements" / "gpt2.json.gz"


@pytest.fixture(scope="module")
def gpt2_step() -> Trace:
    return Trace.load(GPT2)


def test_a_transformer_step_gets_a_verdict_with_its_reason_for_every_op(gpt2_step: Trace) -> None:
    report = judged(gpt2_step)
    assert report.tally.total == gpt2_step.call_count
    found = {finding.op: finding for finding in report.findings}
    for op in ("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.native_layer_norm.default"):
        assert (found[op].verdict, found[op].deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)
    for op in ("aten.embedding_dense_backward.default", "aten.nll_loss_forward.default", "aten.sum.dim_IntList"):
        assert (found[op].verdict, found[op].deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.DETERMINISTIC)
    for op in ("aten.add.Tensor", "aten.tanh.default", "aten._log_softmax.default"):
        assert op not in found
    assert found["aten.bernoulli_.float"].verdict is Verdict.SEEDED
    for group in gpt2_step.calls:
        if group.op in found:
            assert found[group.op].why
            assert (found[group.op].reason is None) is (Verdict.UNKNOWN is not found[group.op].verdict)
        else:
            rule = TABLE.find(group.op)
            assert rule is not None, f"{group.op} is taken for deterministic without a rule"
            assert rule.evidence


def test_in_deterministic_mode_a_transformer_step_holds_no_known_risk_on_an_npu(gpt2_step: Trace) -> None:
    tally = judged(gpt2_step, "deterministic").tally
    assert set(tally.as_is) == {Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.UNKNOWN}


def test_the_command_line_reports_a_transformer_step_for_an_npu(tracer: Command) -> None:
    done = tracer("report", GPT2, "--backend", "npu", "--format", "csv")
    assert done.code == 0
    rows = list(csv.DictReader(done.out.splitlines()))
    assert {row["backend"] for row in rows} == {"npu"}
    assert {"nondeterministic", "unknown", "seeded"} == {row["verdict"] for row in rows}
    assert all(row["cause"] for row in rows)


FLOAT: dict[str, Any] = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}


def finding(backend: str, op: str, torch: str = "2.13", **facts: Any) -> Finding | None:
    """The finding on one float32 call under torch's defaults."""
    recorded = environment(num_threads=2)
    target = make_target(recorded, backend=backend, torch=torch, settings="default")
    judgement = judge_calls(trace(call(op, facts=FLOAT | facts), environment=recorded), load_tables(), target)[0]
    return judgement.findings[0] if judgement.findings else None


#: A backend, a version of torch, an op of aten, facts of the call, and the verdicts as things stand and in the mode.
SUPPORTED: list[tuple[str, str, str, dict[str, Any], str]] = [
    # ROCm: AMD's libraries in place of NVIDIA's, the rest as CUDA.
    ("rocm", "2.6", "mm.default", {}, "NU"),
    ("rocm", "2.13", "miopen_convolution.default", {}, "NN"),
    ("rocm", "2.13", "_flash_attention_backward.default", {}, "NN"),
    ("rocm", "2.13", "index_add.default", {}, "ND"),
    ("rocm", "2.13", "bincount.default", {"given.weights": True}, "NR"),
    ("rocm", "2.13", "add.Tensor", {}, "DD"),
    # What CUDA's rules say of an overload goes before a class that names its packet.
    ("mps", "2.13", "_coalesce.default", {"layout": "sparse_coo"}, "DD"),
    ("mps", "2.12", "_coalesce.default", {"layout": "sparse_coo"}, "UU"),
    ("rocm", "2.13", "add.Tensor", {"operands.uncoalesced": True}, "ND"),
    ("rocm", "2.13", "sum.dim_IntList", {}, "DD"),
    ("rocm", "2.13", "sum.dim_IntList", {"layout": "sparse_csr"}, "UU"),
    ("rocm", "2.13", "linalg_qr.default", {}, "UU"),
    # MPS: silent in 2.6, refusing more from version to version.
    ("mps", "2.6", "scatter_add.default", {}, "NN"),
    ("mps", "2.13", "scatter_add.default", {}, "NR"),
    ("mps", "2.13", "scatter_add.default", {"dtype": "int64"}, "DD"),
    ("mps", "2.13", "embedding_dense_backward.default", {}, "NN"),
    ("mps", "2.15", "embedding_dense_backward.default", {}, "NR"),
    ("mps", "2.15", "mm.default", {}, "UU"),
    ("mps", "2.15", "mul.Tensor", {}, "DD"),
    ("mps", "2.15", "native_dropout.default", {}, "SS"),
    # XPU: CUDA's refusals under other names, oneDNN asked for repeatable kernels in the mode alone.
    ("xpu", "2.13", "addmm.default", {}, "ND"),
    ("xpu", "2.6", "index_reduce.default", {"arg.reduce": "prod"}, "NN"),
    ("xpu", "2.9", "index_reduce.default", {"arg.reduce": "prod"}, "NU"),
    ("xpu", "2.13", "index_reduce.default", {"arg.reduce": "prod"}, "NR"),
    ("xpu", "2.13", "adaptive_max_pool3d_backward.default", {"shape.divides_evenly": False}, "NN"),
    ("xpu", "2.13", "grid_sampler_2d_backward.default", {}, "NR"),
    ("xpu", "2.13", "_adaptive_avg_pool2d_backward.default", {}, "DR"),
    ("xpu", "2.13", "_embedding_bag_backward.default", {"arg.mode": "sum"}, "DD"),
    ("xpu", "2.13", "_softmax.default", {}, "DD"),
    ("xpu", "2.13", "_softmax.default", {"layout": "sparse_coo"}, "UU"),
    ("xpu", "2.13", "sum.dim_IntList", {}, "DD"),
    ("xpu", "2.13", "sum.dim_IntList", {"layout": "sparse_coo"}, "UU"),
    ("xpu", "2.13", "_foreach_mm.default", {}, "UU"),
    # Classes of ops that no device can make vary.
    ("xpu", "2.13", "nonzero.default", {}, "DD"),
    ("mps", "2.13", "sum.dim_IntList", {}, "DD"),
    # MPS: torch's own Metal kernels, by the version that has them; Apple's graph stays unknown.
    ("mps", "2.12", "sum.dim_IntList", {}, "UU"),
    ("mps", "2.13", "_softmax.default", {}, "UU"),
    ("mps", "2.15", "_softmax.default", {}, "DD"),
    ("mps", "2.15", "native_layer_norm_backward.default", {"arg.output_mask0": True}, "UU"),
    ("mps", "2.13", "max.dim", {}, "UU"),
    ("mps", "2.13", "linear.default", {"dtype": "bfloat16"}, "NN"),
    ("mps", "2.13", "linear.default", {}, "UU"),
    ("mps", "2.13", "scatter.src", {}, "CU"),
    ("mps", "2.13", "add.Tensor", {"layout": "sparse_coo"}, "UU"),
    ("mps", "2.12", "add.Tensor", {"operands.sparse": True}, "UU"),
    ("mps", "2.13", "add.Tensor", {"operands.sparse": True}, "DR"),
    ("mps", "2.13", "add_.Tensor", {"operands.sparse": True, "operands.uncoalesced": True}, "NR"),
    ("mps", "2.13", "mul.Tensor", {"operands.sparse": True}, "UU"),
    ("xpu", "2.13", "addmm.default", {"layout": "sparse_coo"}, "UU"),
    ("xpu", "2.13", "index_select.default", {"layout": "sparse_coo"}, "UU"),
]


@pytest.mark.parametrize(("backend", "version", "op", "facts", "expected"), SUPPORTED)
def test_a_call_has_the_verdicts_that_the_evidence_supports(
    backend: str, version: str, op: str, facts: dict[str, Any], expected: str
) -> None:
    found = finding(backend, f"aten.{op}", version, **facts)
    assert ("DD" if found is None else LETTERS[found.verdict] + LETTERS[found.deterministic_mode]) == expected


@pytest.mark.parametrize("backend", ["rocm", "xpu", "mps"])
def test_silence_vouches_for_nothing_where_torch_documents_no_list(backend: str) -> None:
    found = finding(backend, "aten.cdist.default")
    assert found is not None
    assert found.rule == f"{backend}-unlisted"
    assert found.reason is UnknownReason.UNLISTED
    assert found.why == load_table(Backend(backend)).unlisted


@pytest.mark.parametrize("backend", ["rocm", "xpu", "mps"])
def test_a_version_that_nobody_read_is_not_judged(backend: str) -> None:
    found = finding(backend, "aten.relu.default", torch="2.5")
    assert found is not None
    assert found.reason is UnknownReason.TABLE_NOT_REVIEWED


@pytest.mark.parametrize("backend", ["rocm", "xpu", "mps", "npu"])
def test_what_a_table_calls_deterministic_rests_on_evidence(backend: str) -> None:
    """Of every overload that torch has: a rule with its evidence speaks, or the answer is unknown."""
    bound = BoundTable(load_table(Backend(backend)), "2.13.0", {})
    overloads = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    assert len(overloads) > 2000
    for name in overloads:
        packet, _, overload = name.replace("::", ".").partition(".")[2].partition(".")
        op = f"aten.{packet}.{overload or 'default'}"
        ruling = bound.outcome(op, FLOAT)
        assert ruling.verdict is not Verdict.DETERMINISTIC or ruling.evidence, op


def test_rocm_marks_what_it_takes_over_from_cuda() -> None:
    found = finding("rocm", "aten.index_add.default")
    assert found is not None
    assert found.rule == "rocm-cuda-index-add"
    assert found.why.startswith("Inherited from cuda")
    assert {one.kind for one in found.evidence} == {EvidenceKind.DOCUMENTED}


def test_rocm_says_nothing_of_cublas_or_cudnn() -> None:
    for rule in load_table(Backend.ROCM).rule:
        keys = {key for case in rule.case for key in case.when}
        assert "cublas_workspace" not in keys, f"{rule.id}: {rule.ops} need a rule of ROCm's own"
        if rule.id.startswith("rocm-cuda-") and rule.cause is not Cause.RNG:
            assert not any("cudnn" in op for op in rule.ops), rule.id


@pytest.mark.parametrize("backend", ["rocm", "xpu", "mps"])
def test_nothing_is_called_measured_that_nobody_ran(backend: str) -> None:
    grades = {row.kind for rule in load_table(Backend(backend)).rule for row in rule.evidence}
    assert EvidenceKind.MEASURED not in grades

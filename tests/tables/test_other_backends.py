"""The tables for Ascend, AMD, Intel and Apple devices: the vendor's 49 APIs, a real step, what people meet first."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.build import call, environment, trace
from tests.support.command import Command
from tracer import DeterminismTracer, Trace, judge
from tracer.findings import Finding
from tracer.judging import judge_calls, make_target
from tracer.names import About, Backend, Cause, EvidenceKind, UnknownReason, Verdict
from tracer.report import Report
from tracer.tables.bound_table import BoundTable
from tracer.tables.conditions import wanted_values
from tracer.tables.loading import load_table, load_tables, named_variables
from tracer.tables.rules import Rule, strongest

TABLE = load_table(Backend.NPU)

KERNELS = Path(__file__).parents[1] / "data" / "cann_kernels.csv"

APIS = {api: [rule for rule in TABLE.rule if api in rule.apis] for rule in TABLE.rule for api in rule.apis}

#: Dropped from the list that first spoke of the mode being off: nothing is known by default.
DROPPED = ("torch_npu.npu_convolution", "torch_npu.npu_ps_roi_pooling", "torch_npu.npu_group_norm_swish")

#: The vendor's own ops, forward and backward.
CUSTOM = {
    "torch_npu.npu_convolution_transpose": (
        "npu.npu_convolution_transpose",
        "npu.npu_convolution_transpose_backward",
    ),
    "torch_npu.npu_convolution": ("npu.npu_convolution", "npu.npu_convolution_backward"),
    "torch_npu.npu_linear": ("npu.npu_linear", "npu.npu_linear_backward"),
    "torch_npu.npu_deformable_conv2d": ("npu.npu_deformable_conv2d", "npu.npu_deformable_conv2dbk"),
    "torch_npu.npu_ps_roi_pooling": ("npu.npu_ps_roi_pooling", "npu.npu_ps_roi_pooling_backward"),
    "torch_npu.npu_group_norm_swish": ("npu.npu_group_norm_swish",),
}

#: Composites that only an NPU runs as one op.
ONE_OP_THERE = {
    "torch.nn.functional.l1_loss": ("aten.l1_loss", "npu.l1_loss_backward"),
    "torch.nn.functional.kl_div": ("aten.kl_div", "npu.kl_div_backward", "npu.kl_div_target_backward"),
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
    names = {*NATIVE, *CUSTOM, *ONE_OP_THERE}
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


@pytest.mark.parametrize(("api", "ops"), [*CUSTOM.items(), *ONE_OP_THERE.items()])
def test_an_op_that_only_npus_have_is_known_forward_and_backward(api: str, ops: tuple[str, ...]) -> None:
    facts = {"device": "npu", "dtype": "float32"}
    findings = of_calls(judged(trace(*(call(f"{op}.default", facts=facts) for op in ops))))
    assert {f"{op}.default" for op in ops} == {finding.op for finding in findings}
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


@cache
def statuses() -> dict[str, set[str]]:
    """What CANN's list says of each kernel that a rule names: a status for each release and chip that has it."""
    with KERNELS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["kernel"]: {status for column, status in row.items() if column != "kernel"} - {"", "-"} for row in rows}


@pytest.mark.parametrize("rule", [rule for rule in TABLE.rule if rule.kernels], ids=lambda rule: rule.id)
def test_a_rule_that_names_kernels_says_what_the_vendors_list_says_of_them(rule: Rule) -> None:
    listed = statuses()
    said = set.union(*(listed[name] for names in rule.kernels.values() for name in names.split(", ")))
    as_is = {case.verdict for case in rule.case if "off" in wanted_values(case, "deterministic_mode")}
    if Verdict.NONDETERMINISTIC in as_is:
        assert said & {"nondet_configurable", "nondet_unstated"}
    else:  # every kernel, on every chip and in every release
        assert said == {"det_default"}


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


@pytest.mark.parametrize("rule", TABLE.rule, ids=lambda rule: rule.id)
def test_nothing_raises_on_an_npu_and_warning_counts_as_on(rule) -> None:
    for case in rule.case:
        assert case.verdict is not Verdict.RAISES
        modes = wanted_values(case, "deterministic_mode")
        assert ("warn" in modes) is ("on" in modes)


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


@pytest.fixture(scope="module")
def gpt2_step() -> Trace:
    """One training step of a GPT-2 with dropout, gradient clipping and AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 50, (2, 8))
    torch.manual_seed(0)
    with DeterminismTracer(model) as tracer:
        model(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return tracer.trace


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


def test_the_command_line_reports_a_transformer_step_for_an_npu(
    gpt2_step: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "step.trace.json"
    gpt2_step.save(saved)
    done = Command(capsys, monkeypatch)("report", saved, "--backend", "npu", "--format", "csv")
    assert done.code == 0
    rows = list(csv.DictReader(done.out.splitlines()))
    assert {row["backend"] for row in rows} == {"npu"}
    assert {"nondeterministic", "unknown", "seeded"} == {row["verdict"] for row in rows}
    assert all(row["cause"] for row in rows)


BOTH = ("nondeterministic", "nondeterministic")

SAFE = ("deterministic", "deterministic")

OPEN = ("unknown", "unknown")

FLOAT: dict[str, Any] = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}


def verdicts(backend: str, op: str, torch: str = "2.13", settings: str = "default", **facts: Any) -> tuple[str, str]:
    """The verdict of one float32 call as things stand, and under deterministic mode."""
    found = finding(backend, op, torch, settings, **facts)
    return (
        ("deterministic", "deterministic") if found is None else (found.verdict.value, found.deterministic_mode.value)
    )


def finding(backend: str, op: str, torch: str = "2.13", settings: str = "default", **facts: Any) -> Finding | None:
    given = {**FLOAT, **{key.replace("__", "."): value for key, value in facts.items()}}
    recorded = environment(num_threads=2)
    target = make_target(recorded, backend=backend, torch=torch, settings=settings)
    judgement = judge_calls(trace(call(op, facts=given), environment=recorded), load_tables(), target)[0]
    return judgement.findings[0] if judgement.findings else None


@pytest.mark.parametrize(
    ("backend", "op", "torch", "facts", "expected"),
    [
        # ROCm: AMD's libraries in place of NVIDIA's, the rest as CUDA.
        ("rocm", "aten.mm.default", "2.6", {}, ("nondeterministic", "unknown")),
        ("rocm", "aten.miopen_convolution.default", "2.13", {}, ("nondeterministic", "nondeterministic")),
        ("rocm", "aten.miopen_rnn.default", "2.13", {}, ("nondeterministic", "nondeterministic")),
        ("rocm", "aten._flash_attention_backward.default", "2.13", {}, ("nondeterministic", "nondeterministic")),
        ("rocm", "aten.index_add.default", "2.13", {}, ("nondeterministic", "deterministic")),
        ("rocm", "aten.bincount.default", "2.13", {"given__weights": True}, ("nondeterministic", "raises")),
        ("rocm", "aten.cumsum.default", "2.13", {"shape__scan_is_whole": True}, ("nondeterministic", "deterministic")),
        ("rocm", "aten.add.Tensor", "2.13", {}, ("deterministic", "deterministic")),
        # What CUDA's rules say of an overload goes before a class that names its packet.
        ("mps", "aten._coalesce.default", "2.13", {"layout": "sparse_coo"}, SAFE),
        ("mps", "aten._coalesce.default", "2.12", {"layout": "sparse_coo"}, OPEN),
        ("rocm", "aten.add.Tensor", "2.13", {"operands__uncoalesced": True}, ("nondeterministic", "deterministic")),
        ("rocm", "aten.sum.dim_IntList", "2.13", {}, SAFE),
        ("rocm", "aten.sum.dim_IntList", "2.13", {"layout": "sparse_csr"}, OPEN),
        ("rocm", "aten._log_softmax_backward_data.default", "2.13", {}, SAFE),
        ("rocm", "aten.linalg_qr.default", "2.13", {}, OPEN),
        ("rocm", "aten._grouped_mm.default", "2.13", {}, OPEN),
        ("rocm", "aten._fft_c2c.default", "2.13", {}, OPEN),
        # MPS: silent in 2.6, refusing more from version to version.
        ("mps", "aten.scatter_add.default", "2.6", {}, ("nondeterministic", "nondeterministic")),
        ("mps", "aten.scatter_add.default", "2.13", {}, ("nondeterministic", "raises")),
        ("mps", "aten.scatter_add.default", "2.13", {"dtype": "int64"}, ("deterministic", "deterministic")),
        ("mps", "aten.embedding_dense_backward.default", "2.13", {}, ("nondeterministic", "nondeterministic")),
        ("mps", "aten.embedding_dense_backward.default", "2.15", {}, ("nondeterministic", "raises")),
        ("mps", "aten.mm.default", "2.15", {}, ("unknown", "unknown")),
        ("mps", "aten.mul.Tensor", "2.15", {}, ("deterministic", "deterministic")),
        ("mps", "aten.view.default", "2.15", {}, ("deterministic", "deterministic")),
        ("mps", "aten.native_dropout.default", "2.15", {}, ("seeded", "seeded")),
        # XPU: CUDA's refusals under other names, oneDNN asked for repeatable kernels in the mode alone.
        ("xpu", "aten.addmm.default", "2.13", {}, ("nondeterministic", "deterministic")),
        ("xpu", "aten.index_reduce.default", "2.6", {"arg__reduce": "prod"}, ("nondeterministic", "nondeterministic")),
        ("xpu", "aten.index_reduce.default", "2.9", {"arg__reduce": "prod"}, ("nondeterministic", "unknown")),
        ("xpu", "aten.index_reduce.default", "2.13", {"arg__reduce": "prod"}, ("nondeterministic", "raises")),
        ("xpu", "aten.adaptive_max_pool3d_backward.default", "2.13", {"shape__divides_evenly": False}, BOTH),
        ("xpu", "aten.grid_sampler_2d_backward.default", "2.13", {}, ("nondeterministic", "raises")),
        ("xpu", "aten._adaptive_avg_pool2d_backward.default", "2.13", {}, ("deterministic", "raises")),
        ("xpu", "aten._embedding_bag_backward.default", "2.13", {"arg__mode": "sum"}, SAFE),
        ("xpu", "aten.relu.default", "2.13", {}, ("deterministic", "deterministic")),
        ("xpu", "aten.native_batch_norm.default", "2.13", {}, SAFE),
        ("xpu", "aten.native_layer_norm_backward.default", "2.6", {}, SAFE),
        ("xpu", "aten._softmax.default", "2.13", {}, SAFE),
        ("xpu", "aten._softmax.default", "2.13", {"layout": "sparse_coo"}, OPEN),
        ("xpu", "aten.cumsum.default", "2.13", {}, SAFE),
        ("xpu", "aten._fft_r2c.default", "2.13", {}, OPEN),
        ("xpu", "aten.sum.dim_IntList", "2.13", {}, ("deterministic", "deterministic")),
        ("xpu", "aten.sum.dim_IntList", "2.13", {"layout": "sparse_coo"}, ("unknown", "unknown")),
        ("xpu", "aten.nll_loss_forward.default", "2.13", {}, ("deterministic", "deterministic")),
        ("xpu", "aten._foreach_norm.Scalar", "2.13", {}, ("deterministic", "deterministic")),
        ("xpu", "aten._foreach_mm.default", "2.13", {}, ("unknown", "unknown")),
        # Classes of ops that no device can make vary.
        ("xpu", "aten.nonzero.default", "2.13", {}, ("deterministic", "deterministic")),
        ("mps", "aten.floor_divide.default", "2.13", {}, ("deterministic", "deterministic")),
        ("mps", "aten.sum.dim_IntList", "2.13", {}, SAFE),
        # MPS: torch's own Metal kernels, by the version that has them; Apple's graph stays unknown.
        ("mps", "aten.sum.dim_IntList", "2.12", {}, OPEN),
        ("mps", "aten._softmax.default", "2.13", {}, OPEN),
        ("mps", "aten._softmax.default", "2.15", {}, SAFE),
        ("mps", "aten.native_layer_norm.default", "2.13", {}, SAFE),
        ("mps", "aten.native_layer_norm_backward.default", "2.15", {"arg__output_mask0": True}, OPEN),
        ("mps", "aten.sort.stable", "2.13", {}, SAFE),
        ("mps", "aten.max.default", "2.6", {}, SAFE),
        ("mps", "aten.max.dim", "2.13", {}, OPEN),
        ("mps", "aten.linear.default", "2.13", {"dtype": "bfloat16"}, BOTH),
        ("mps", "aten.linear.default", "2.13", {}, OPEN),
        ("mps", "aten.scatter.src", "2.13", {}, ("conditional", "unknown")),
        ("mps", "aten.nll_loss_backward.default", "2.13", {}, SAFE),
        ("mps", "aten.add.Tensor", "2.13", {"layout": "sparse_coo"}, ("unknown", "unknown")),
        ("mps", "aten.add.Tensor", "2.12", {"operands__sparse": True}, ("unknown", "unknown")),
        ("mps", "aten.add.Tensor", "2.13", {"operands__sparse": True}, ("deterministic", "raises")),
        (
            "mps",
            "aten.add_.Tensor",
            "2.13",
            {"operands__sparse": True, "operands__uncoalesced": True},
            ("nondeterministic", "raises"),
        ),
        ("mps", "aten.mul.Tensor", "2.13", {"operands__sparse": True}, ("unknown", "unknown")),
        ("xpu", "aten._foreach_mul.List", "2.13", {"operands__sparse": True}, ("unknown", "unknown")),
        ("xpu", "aten.addmm.default", "2.13", {"layout": "sparse_coo"}, ("unknown", "unknown")),
        ("xpu", "aten.index_select.default", "2.13", {"layout": "sparse_coo"}, ("unknown", "unknown")),
        ("mps", "aten.index_select.default", "2.13", {"layout": "sparse_coo"}, ("unknown", "unknown")),
    ],
)
def test_a_call_has_the_verdicts_that_the_evidence_supports(
    backend: str, op: str, torch: str, facts: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert verdicts(backend, op, torch, **facts) == expected


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

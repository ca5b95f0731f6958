"""What the tables for AMD, Intel and Apple devices say of the calls that people meet first."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.build import call, environment, trace
from tracer.findings import Finding
from tracer.judging import judge_calls, make_target
from tracer.names import Backend, Cause, EvidenceKind, UnknownReason, Verdict
from tracer.tables.bound_table import BoundTable
from tracer.tables.loading import load_table, load_tables

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

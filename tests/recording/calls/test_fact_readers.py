"""What a call was called with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.support.lines import groups, record
from tracer.recording.calls import fact_readers as facts
from tracer.tables.rules import DOMAINS

ONES = torch.ones(2, 3, 8, 8)


def _bag(mode: str) -> Callable[[], object]:
    weight = torch.ones(5, 2, requires_grad=True)
    return lambda: F.embedding_bag(torch.tensor([[0, 1]]), weight, mode=mode).sum().backward()


@pytest.mark.parametrize(
    ("run", "op", "expected"),
    [
        (lambda: torch.ones(4).put_(torch.tensor([0]), torch.ones(1)), "aten.put_", {"arg.accumulate": False}),
        (
            lambda: torch.ones(4).put_(torch.tensor([0]), torch.ones(1), accumulate=True),
            "aten.put_",
            {"arg.accumulate": True},
        ),
        (
            lambda: torch.ones(4).scatter_reduce(0, torch.tensor([0]), torch.ones(1), "amax"),
            "aten.scatter_reduce",
            {"arg.reduce": "amax"},
        ),
        (lambda: torch.ones(4).cumsum(0, dtype=torch.int32), "aten.cumsum", {"dtype": "int32"}),
        (lambda: torch.ones(4, dtype=torch.int32).cumsum(0, dtype=torch.float32), "aten.cumsum", {"dtype": "float32"}),
        (lambda: torch.ones(4).cumsum(0), "aten.cumsum", {"dtype": "float32"}),
        (_bag("max"), "aten._embedding_bag_backward", {"arg.mode": "max"}),
        (_bag("sum"), "aten._embedding_bag_backward", {"arg.mode": "sum"}),
        (lambda: torch.bincount(torch.tensor([1])), "aten.bincount", {"given.weights": False}),
        (lambda: torch.bincount(torch.tensor([1]), torch.ones(1)), "aten.bincount", {"given.weights": True}),
        (
            lambda: torch.ones(4).index_put_((torch.tensor([1]),), torch.ones(1)),
            "aten.index_put_",
            {"index.is_mask": False},
        ),
        (
            lambda: torch.ones(4).index_put_((torch.ones(4, dtype=torch.bool),), torch.ones(4)),
            "aten.index_put_",
            {"index.is_mask": True},
        ),
        (
            lambda: torch.ones(4, 300).index_put_(
                (torch.zeros(200, dtype=torch.int64),), torch.ones(1), accumulate=True
            ),
            "aten.index_put_",
            {"shape.numel_ge_32768": True},
        ),
        (
            lambda: torch.ones(90_000).index_put_((torch.tensor([1]),), torch.ones(1), accumulate=True),
            "aten.index_put_",
            {"shape.numel_ge_32768": False},
        ),
        (
            lambda: torch.linalg.lstsq(torch.eye(3), torch.ones(3, 1)),
            "aten.linalg_lstsq",
            {"arg.driver": "default"},
        ),
        (
            lambda: torch.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.ones(2, 2)),
            "aten.addmm",
            {"layout": "sparse_coo"},
        ),
        (lambda: torch.ones(5).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": True}),
        (lambda: torch.ones(5, 2).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": False}),
        (lambda: torch.ones((), dtype=torch.float64).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": True}),
        (
            lambda: F.cross_entropy(ONES, torch.zeros(2, 8, 8, dtype=torch.int64), reduction="none"),
            "aten.nll_loss2d_forward",
            {"arg.reduction": "none"},
        ),
    ],
)
def test_asked_facts(run: Callable[[], object], op: str, expected: dict[str, object]) -> None:
    tracer = record(run)
    # Up to torch 2.5 the composite falls apart before a mode sees it.
    found = groups(tracer, op) or groups(tracer, op.replace("_bag_", "_bag_dense_"))
    assert found
    for group in found:
        assert expected.items() <= group.facts.items(), group.facts


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.complex64, torch.uint16, torch.bool])
def test_every_dtype_has_a_word(dtype: torch.dtype) -> None:
    assert facts.dtype_word(dtype) in DOMAINS["dtype"]
    assert facts.dtype_word(dtype) != "other"


def test_quantized_tensors_are_told_apart() -> None:
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
    found = groups(record(lambda: quantized.resize_(2)), "aten.resize_")
    assert [group.facts["dtype"] for group in found] == ["quantized"]


def test_an_op_without_tensors_says_none() -> None:
    assert facts.common_facts(None) == {"device": "none", "dtype": "none", "layout": "none", "ndim": -1}


def test_every_recorded_fact_is_of_the_vocabulary() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.AdaptiveAvgPool2d(3))
    tracer = record(lambda: net(ONES).cumsum(0).sum().backward(), net)
    for group in tracer.trace.calls:
        for key, value in group.facts.items():
            assert value in DOMAINS[key], (group.op, key, value)


def test_an_argument_of_an_unforeseen_type_leaves_the_fact_out() -> None:
    from tracer.recording.calls.groups import OverloadInfo

    plan = OverloadInfo(torch.ops.aten.logcumsumexp.default, {"aten.logcumsumexp": frozenset({"shape.scan_is_whole"})})
    assert plan.read((object(), 0), {}) == (facts.MISSING,)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_safe_softmax"), reason="torch before 2.5 has no such softmax")
@pytest.mark.parametrize("restricted", [False, True])
def test_attention_restricted_to_the_math_route_is_noted(restricted: bool) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    query = torch.ones(1, 1, 4, 8)

    def attend() -> None:
        F.scaled_dot_product_attention(query, query, query, dropout_p=0.5)

    def attend_plainly() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            attend()

    (softmax,) = groups(record(attend_plainly if restricted else attend), "aten._safe_softmax")
    assert softmax.facts["sdp.fused"] is not restricted

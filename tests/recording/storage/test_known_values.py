"""Sums of ones, masks and constants are exact in any order, and never where a number may be another one."""

# ruff: noqa: E501  (a line a case reads as the table that it is)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from tests.recording.storage.test_indices import recorded
from tracer import DeterminismTracer, judge
from tracer.recording.storage.registry import MOST_TENSORS

I = torch.randint(0, 5, (100,), generator=torch.Generator().manual_seed(0))  # noqa: E741
X = torch.randn(100, generator=torch.Generator().manual_seed(0))


def zeros(count: int = 5, **how: Any) -> torch.Tensor:
    return torch.zeros(count, **how)


def verdicts(step: Callable[[], Any], backend: str = "cuda") -> set[str]:
    """Of the indexed additions of ``step``, with deterministic mode off."""
    report = judge(recorded(step), backend=backend, torch="2.13", settings="default")
    words = ("index_add", "scatter", "bincount", "put", "index_reduce")
    return {str(call.ruling.verdict) for call in report.judged_calls if any(word in call.group.op for word in words)}


EXACT: list[tuple[str, Callable[[], Any]]] = [
    ("ones", lambda: zeros().index_add(0, I, torch.ones(100))),
    ("ones_like", lambda: zeros().scatter_add(0, I, torch.ones_like(I, dtype=torch.float32))),
    ("new_ones onto new_zeros", lambda: X.new_zeros(5).scatter_add_(0, I, X.new_ones(100))),
    ("a mask", lambda: zeros().scatter_add(0, I, (I > 2).float())),
    ("a mask by type_as", lambda: zeros().scatter_add(0, I, (I > 2).type_as(X))),
    ("not a mask", lambda: zeros().scatter_add(0, I, 1 - (I > 2).float())),
    ("a mask times a mask", lambda: zeros().scatter_add(0, I, (I > 2).float() * (I < 4))),
    ("a chosen number", lambda: zeros().scatter_add(0, I, torch.where(I > 2, 0.3, 0.0))),
    ("a filled mask", lambda: zeros().scatter_add(0, I, torch.ones(100).masked_fill(I > 2, 0.0))),
    ("one constant", lambda: torch.rand(5).index_add(0, I, torch.full((100,), 0.1))),
    ("one share", lambda: zeros().scatter_add(0, I, torch.ones(100) / 7)),
    ("a scaled mask", lambda: zeros().scatter_add(0, I, (I > 2).float() * 0.1)),
    ("one number each", lambda: zeros().scatter_add(0, I, torch.ones(1).expand(100))),
    ("ones, then ones again", lambda: zeros().index_add_(0, I, torch.ones(100)).index_add_(0, I, torch.ones(100))),
    ("a row of a table of ones", lambda: zeros().scatter_add(0, I, torch.ones(3, 100)[1])),
    ("ones that were copied", lambda: zeros().scatter_add(0, I, torch.ones(100, dtype=torch.float64).float().clone())),
    ("filled by hand", lambda: zeros().scatter_add(0, I, torch.empty(100).fill_(1))),
    ("whole classes", lambda: zeros().scatter_add(0, I, torch.nn.functional.one_hot(I, 5).float()[:, 0])),
    ("a drawn mask", lambda: zeros().scatter_add(0, I, torch.bernoulli(torch.full((100,), 0.5)))),
    ("reduced", lambda: zeros().scatter_reduce(0, I, torch.ones(100), "sum")),
    ("put", lambda: zeros().put_(I, torch.ones(100), accumulate=True)),
    ("weights of a mask", lambda: torch.bincount(I, (I > 2).float())),
    ("gradient of a sum", lambda: torch.zeros(5, requires_grad=True).gather(0, I).sum().backward()),
    ("counts of extremes", lambda: torch.zeros(5).scatter_reduce(0, I, X.clone().requires_grad_(), "amax").exp().sum().backward()),
    ("into half precision", lambda: torch.zeros(5, dtype=torch.bfloat16).index_add(0, I, torch.ones(100, dtype=torch.bfloat16))),
]  # fmt: skip
ROUNDED: list[tuple[str, Callable[[], Any]]] = [
    ("random numbers", lambda: zeros().index_add(0, I, torch.randn(100))),
    ("two constants", lambda: zeros().scatter_add(0, I, torch.where(I > 2, 0.3, 0.7))),
    ("constants side by side", lambda: zeros().scatter_add(0, I, torch.cat([torch.full((50,), 0.1), torch.full((50,), 0.2)]))),
    ("one constant of two dtypes", lambda: zeros().scatter_add(0, I, torch.cat([torch.full((50,), 0.1, dtype=torch.float16), torch.full((50,), 0.1)]))),
    ("one constant of either sign", lambda: zeros().scatter_add(0, I, torch.cat([torch.full((50,), 0.1), -torch.full((50,), 0.1)]))),
    ("a constant, partly overwritten", lambda: zeros().scatter_add(0, I, partly(torch.ones(100)))),
    ("a constant, written through data", lambda: zeros().scatter_add(0, I, through_data(torch.ones(100)))),
    ("a constant, written by NumPy", lambda: zeros().scatter_add(0, I, by_numpy(torch.ones(100)))),
    ("statistics that batch norm wrote", lambda: zeros().scatter_add(0, torch.zeros(5, dtype=torch.int64), statistics())),
    ("a product of a mask", lambda: zeros().scatter_add(0, I, (I > 2) * X)),
    ("a mask from which numbers are taken", lambda: zeros().scatter_add(0, I, (I > 2).float() - X)),
    ("a mask in turn with another share", lambda: zeros().scatter_add(0, I, (I > 2).float() * 0.1 + 0.2)),
    ("a step size", lambda: zeros().index_add(0, I, torch.randn(100), alpha=0.1)),
    ("a product", lambda: torch.rand(5).scatter_reduce(0, I, torch.full((100,), 0.1), "prod")),
    ("one constant, in parts of a block", lambda: torch.bincount(I, torch.full((100,), 0.1))),
    ("ones under other views", lambda: zeros().scatter_add(0, I, torch.ones(100, dtype=torch.int32).view(torch.float32) * X)),
]  # fmt: skip


def partly(ones: torch.Tensor) -> torch.Tensor:
    ones[3:60] = X[3:60]
    return ones


def statistics() -> torch.Tensor:
    """``native_batch_norm`` writes them, which its schema does not say."""
    variance = torch.ones(5)
    torch.nn.functional.batch_norm(X.view(20, 5), torch.zeros(5), variance, training=True)
    return variance


def through_data(ones: torch.Tensor) -> torch.Tensor:
    ones.data.mul_(X)
    return ones


def by_numpy(ones: torch.Tensor) -> torch.Tensor:
    ones.numpy()[:] = X.numpy()
    return ones


@pytest.mark.parametrize("step", [pytest.param(step, id=name) for name, step in EXACT])
def test_what_adds_up_without_rounding_is_deterministic(step: Callable[[], Any]) -> None:
    assert verdicts(step) == {"deterministic"}


@pytest.mark.parametrize("step", [pytest.param(step, id=name) for name, step in ROUNDED])
def test_what_may_be_rounded_is_not(step: Callable[[], Any]) -> None:
    assert verdicts(step) == {"nondeterministic"}


@pytest.mark.parametrize("count", [256, 257])
def test_counts_are_whole_as_far_as_the_dtype_goes(count: int) -> None:
    """Two masks together reach 2, so that one more would be rounded."""
    index = torch.zeros(count // 2, dtype=torch.int64)

    def step() -> None:
        numbers = (X[0] > -9).to(torch.bfloat16).expand(count // 2) + torch.ones(count // 2, dtype=torch.bfloat16)
        torch.zeros(1, dtype=torch.bfloat16).index_add(0, index, numbers + (count % 2))

    assert verdicts(step) == {"deterministic" if count == 256 else "nondeterministic"}


@pytest.mark.parametrize("backend", ["cuda", "rocm", "xpu", "mps"])
def test_degrees_of_a_graph_are_deterministic_and_sums_of_its_features_are_not(backend: str) -> None:
    def mean(features: torch.Tensor) -> torch.Tensor:
        degree = features.new_zeros(5).scatter_add_(0, I, features.new_ones(100)).clamp_(min=1)
        return features.new_zeros(5).scatter_add_(0, I, features) / degree

    found = judge(recorded(lambda: mean(X)), backend=backend, torch="2.13", settings="default").findings
    varying = [(finding.op, finding.count) for finding in found if finding.verdict == "nondeterministic" and finding.op]
    assert varying == [("aten.scatter_add_.default", 1)]


def test_ones_on_fake_tensors_are_ones() -> None:
    def step() -> None:
        with FakeTensorMode():
            torch.zeros(5).index_add(0, torch.zeros(9, dtype=torch.int64), torch.ones(9))

    assert verdicts(step) == {"deterministic"}


def test_no_tensor_is_kept_alive_and_only_so_many_are_known() -> None:
    tracer = DeterminismTracer()
    with tracer:
        kept = [torch.ones(1) for _ in range(MOST_TENSORS + 9)]
        known = tracer._session.recorder.storages.indices.values
        assert len(known.live) == MOST_TENSORS
        assert known.of(kept[0]).one is None
        assert known.of(kept[-1]).one == 1
        del kept
        known.prune()
        assert not known.live


def test_tensors_that_are_gone_are_forgotten_while_others_are_computed() -> None:
    tracer, x = DeterminismTracer(), torch.randn(3)
    with tracer:
        held = torch.ones(3)
        gone = [torch.ones(1) for _ in range(20)]
        known = tracer._session.recorder.storages.indices.values
        assert len(known.live) == 21
        del gone
        for _ in range(20):
            x = x + 1.5
        assert len(known.live) == 1
        assert known.of(held).one == 1

"""Kept additions made in other orders: an estimate, widest first, and zero where no order can show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tests.cli.command import Command
from tracer import DeterminismTracer
from tracer.errors import UsageError
from tracer.one_call.orders import _adding, order_spreads
from tracer.report import Report
from tracer.trace.values import inputs_path


def recorded(folder: Path) -> tuple[Report, Path]:
    def step() -> None:
        torch.manual_seed(0)
        places = torch.randint(0, 5, (2000,))
        zeros, ones = torch.zeros(5), torch.ones(2000)
        zeros.index_add(0, places, torch.randn(2000))
        zeros.index_add_(0, places, ones)  # whole numbers add exactly
        zeros.scatter_add(0, places, torch.randn(2000) * 1e4)
        weights = torch.randn(5, 3, requires_grad=True)
        (F.embedding(places, weights) * torch.randn(2000, 3)).sum().backward()

    path = folder / "trace.json"
    with DeterminismTracer(keep_inputs="*") as tracer:
        step()
    tracer.save(path)
    return tracer.report(backend="cuda"), path


def test_findings_are_ranked_by_how_far_their_sums_lie_apart(tmp_path: Path) -> None:
    report, path = recorded(tmp_path)
    found = {spread.op: spread for spread in order_spreads(report, path)}
    assert {"aten.index_add.default", "aten.index_add_.default", "aten.scatter_add.default"} <= set(found)
    assert found["aten.index_add_.default"].ulp == 0
    assert found["aten.index_add_.default"].relative == 0
    assert 0 < found["aten.index_add.default"].relative < 1e-4
    assert found["aten.scatter_add.default"].ulp > 0
    relatives = [spread.relative for spread in order_spreads(report, path)]
    assert relatives == sorted(relatives, reverse=True)


def test_a_recording_without_inputs_is_told_so(tmp_path: Path) -> None:
    with DeterminismTracer() as tracer:
        torch.zeros(3).index_add(0, torch.tensor([0, 0]), torch.ones(2))
    with pytest.raises(UsageError, match="holds no inputs to add up again"):
        order_spreads(tracer.report(backend="cuda"), tmp_path / "trace.json")


def test_each_format_has_it_and_calls_it_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = Command(capsys, monkeypatch)
    _, path = recorded(tmp_path)
    common = ("report", path, "--backend", "cuda", "--fuzz-order")
    text = tracer(*common)
    assert text.code == 0
    assert "How much the order could matter: an estimate" in text.out
    table = tracer(*common, "--table", "orders").out.splitlines()
    assert table[0] == "finding,op,location,calls,orders,ulp,relative"
    assert len(table) >= 4
    spreads = json.loads(tracer(*common, "--format", "json").out)["order_spreads"]
    assert [spread["op"] for spread in spreads] == [line.split(",")[1] for line in table[1:]]
    assert "an estimate</h2>" in tracer(*common, "--format", "html").out
    assert "order_spreads" not in tracer("report", path, "--backend", "cuda", "--format", "json").out


@pytest.mark.parametrize(
    ("op", "pool"),
    [
        ("max_pool3d_with_indices_backward", lambda x: F.max_pool3d(x[:, None], 3, 1)),
        ("adaptive_max_pool2d_backward", lambda x: F.adaptive_max_pool2d(x, (7, 7))),
        ("adaptive_max_pool3d_backward", lambda x: F.adaptive_max_pool3d(x[:, None], (2, 7, 7))),
        ("fractional_max_pool2d_backward", lambda x: F.fractional_max_pool2d(x, 6, output_size=12)),
    ],
)
def test_gradients_that_meet_below_overlapping_windows_are_added_as_the_op_adds_them(
    op: str, pool: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 20, 20, requires_grad=True)
    path = tmp_path / "trace.json"
    with DeterminismTracer(keep_inputs="*") as tracer:
        pooled = pool(image)
        pooled.backward(torch.randn_like(pooled))
    tracer.save(path)
    (group,) = (one for one in tracer.trace.calls if one.op == f"aten.{op}.default")
    made = _adding(group, load_file(inputs_path(path)))
    assert made is not None
    count, add = made
    assert image.grad is not None
    assert torch.allclose(add(torch.arange(count)).reshape(image.shape), image.grad, rtol=1e-6)
    found = {spread.op: spread for spread in order_spreads(tracer.report(backend="cuda"), path)}
    assert found[group.op].ulp > 0

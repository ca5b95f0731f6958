"""Gradients that meet where windows overlap: added as the op adds them, in orders that stay within its real range."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tracer import DeterminismTracer
from tracer.one_call import windows
from tracer.one_call.orders import _adding, order_spreads
from tracer.trace.records import CallGroup
from tracer.trace.values import inputs_path

Pool = Callable[[torch.Tensor], torch.Tensor]

SOLID = (1, 2, 6, 7, 9)
#: An op, the shape of what is pooled, and how. In each, windows overlap.
OVERLAPPING: dict[str, tuple[str, tuple[int, ...], Pool]] = {
    "average": ("avg_pool2d_backward", (2, 3, 12, 13), lambda x: F.avg_pool2d(x, (3, 4), 2, 1)),
    "average, padding not counted": (
        "avg_pool2d_backward",
        (2, 3, 12, 13),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    ),
    "average, ends rounded up": (
        "avg_pool2d_backward",
        (3, 12, 12),
        lambda x: F.avg_pool2d(x, 5, 3, 2, ceil_mode=True),
    ),
    "average, own divisor": ("avg_pool3d_backward", SOLID, lambda x: F.avg_pool3d(x, 3, 1, divisor_override=7)),
    "average of solids": ("avg_pool3d_backward", SOLID, lambda x: F.avg_pool3d(x, 3, 2, 1)),
    "adaptive": ("_adaptive_avg_pool2d_backward", (2, 3, 12, 13), lambda x: F.adaptive_avg_pool2d(x, (5, 7))),
    "adaptive of solids": ("_adaptive_avg_pool3d_backward", SOLID, lambda x: F.adaptive_avg_pool3d(x, (4, 5, 7))),
    "linear": ("upsample_linear1d_backward", (2, 3, 20), lambda x: F.interpolate(x, 47, mode="linear")),
    "bilinear": (
        "upsample_bilinear2d_backward",
        (2, 3, 12, 13),
        lambda x: F.interpolate(x, scale_factor=(1.7, 2.3), mode="bilinear"),
    ),
    "bilinear, corners aligned": (
        "upsample_bilinear2d_backward",
        (2, 3, 12, 13),
        lambda x: F.interpolate(x, (30, 17), mode="bilinear", align_corners=True),
    ),
    "trilinear": ("upsample_trilinear3d_backward", SOLID, lambda x: F.interpolate(x, (9, 11, 13), mode="trilinear")),
    "bicubic": ("upsample_bicubic2d_backward", (2, 3, 12, 13), lambda x: F.interpolate(x, (20, 31), mode="bicubic")),
    "bilinear, smoothed": (
        "_upsample_bilinear2d_aa_backward",
        (2, 3, 12, 13),
        lambda x: F.interpolate(x, (7, 9), mode="bilinear", antialias=True),
    ),
    "bicubic, smoothed": (
        "_upsample_bicubic2d_aa_backward",
        (2, 3, 12, 13),
        lambda x: F.interpolate(x, (7, 9), mode="bicubic", antialias=True),
    ),
}
#: Windows that do not overlap: every sum has one addend, and no order can show.
BESIDE_EACH_OTHER: dict[str, tuple[str, tuple[int, ...], Pool]] = {
    "average": ("avg_pool2d_backward", (2, 3, 12, 12), lambda x: F.avg_pool2d(x, 3)),
    "adaptive": ("_adaptive_avg_pool2d_backward", (2, 3, 12, 12), lambda x: F.adaptive_avg_pool2d(x, 4)),
}


def recorded(op: str, shape: tuple[int, ...], pool: Pool, path: Path) -> tuple[CallGroup, torch.Tensor, torch.Tensor]:
    """The group of the backward call, with its inputs kept, the gradient that went in and the one that came out."""
    torch.manual_seed(0)
    image = torch.randn(shape, requires_grad=True)
    with DeterminismTracer(keep_inputs="*") as tracer:
        pooled = pool(image)
        gradient = torch.randn_like(pooled)
        pooled.backward(gradient)
    tracer.save(path)
    (group,) = (one for one in tracer.trace.calls if one.op == f"aten.{op}.default")
    assert image.grad is not None
    return group, gradient, image.grad


def exact(shape: tuple[int, ...], pool: Pool, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient without rounding, and a bound of its addends' sizes taken together."""
    made = []
    for wanted in (gradient.double(), gradient.double().abs()):
        image = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        pool(image).backward(wanted)
        assert image.grad is not None
        made.append(image.grad)
    return made[0], made[1]


def test_every_order_stays_within_the_range_of_the_ops_own_sums(tmp_path: Path) -> None:
    for number, (name, (op, shape, pool)) in enumerate(OVERLAPPING.items()):
        wrong = _beyond(op, shape, pool, tmp_path / f"{number}.json")
        assert not wrong, f"{name}: {wrong}"


def _beyond(op: str, shape: tuple[int, ...], pool: Pool, path: Path) -> str:
    """What is wrong with the orders of one op; empty where nothing is."""
    group, gradient, real = recorded(op, shape, pool, path)
    made = _adding(group, load_file(inputs_path(path)))
    if made is None:
        return "not added"
    count, add = made
    wanted, sizes = exact(shape, pool, gradient)
    # Weights are rounded once, products once, and n addends n - 1 times; bicubic weights may be negative.
    reach = 40 * torch.finfo(torch.float32).eps * (sizes.abs() + gradient.abs().max())
    generator = torch.Generator().manual_seed(1)
    results = [add(torch.randperm(count, generator=generator)).reshape(shape) for _ in range(8)]
    beyond = [place for place, one in enumerate((*results, real)) if ((one.double() - wanted).abs() > reach).any()]
    if beyond:
        return f"{beyond} lie too far off"
    return "" if len({one.numpy().tobytes() for one in results}) > 1 else "every order gives the same"


@pytest.mark.parametrize("name", BESIDE_EACH_OTHER)
def test_windows_beside_each_other_come_to_the_ops_own_sums_in_every_order(name: str, tmp_path: Path) -> None:
    op, shape, pool = BESIDE_EACH_OTHER[name]
    path = tmp_path / "trace.json"
    group, _, real = recorded(op, shape, pool, path)
    made = _adding(group, load_file(inputs_path(path)))
    assert made is not None
    count, add = made
    results = {add(torch.randperm(count)).numpy().tobytes() for _ in range(8)}
    assert len(results) == 1
    assert torch.allclose(add(torch.arange(count)).reshape(shape), real, rtol=1e-6, atol=0)


def test_whole_numbers_and_many_planes_cost_and_show_what_they_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    torch.manual_seed(0)
    image = torch.randn(4, 8, 9, 9, requires_grad=True)
    with DeterminismTracer(keep_inputs="*") as tracer:
        exactly = F.avg_pool2d(image, 2, 1)
        exactly.backward(torch.ones_like(exactly))  # quarters add exactly
        F.adaptive_avg_pool2d(image, 4).backward(torch.randn(4, 8, 4, 4))
    tracer.save(path)
    found = {spread.op: spread for spread in order_spreads(tracer.report(backend="cuda"), path)}
    assert found["aten._adaptive_avg_pool2d_backward.default"].ulp > 0
    (group,) = (one for one in tracer.trace.calls if one.op == "aten.avg_pool2d_backward.default")
    made = _adding(group, load_file(inputs_path(path)))
    assert made is not None
    count, add = made
    assert len({add(torch.randperm(count)).numpy().tobytes() for _ in range(8)}) == 1
    monkeypatch.setattr(windows, "MOST_ADDENDS", 5 * count)
    fewer = _adding(group, load_file(inputs_path(path)))
    assert fewer is not None
    assert fewer[1](torch.arange(count)).shape[0] == 5

"""Where recording changes a gradient, the report says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from packaging.version import Version

from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind
from tracer.trace.records import BlindSpot

Function = Callable[[torch.Tensor], torch.Tensor]


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


TABLE = numbers(300, 91)
MASK = TABLE > 0


def changed(tracer: DeterminismTracer) -> list[BlindSpot]:
    return [spot for spot in tracer.trace.blind_spots if spot.kind is BlindSpotKind.CHANGED_BY_RECORDING]


def gradient(function: Function, start: torch.Tensor, block: Any) -> bytes:
    x = start.clone().requires_grad_()
    with block:
        function(x).backward()
    assert x.grad is not None
    return x.grad.contiguous().numpy().tobytes()


CHANGED: dict[str, tuple[str, Function, torch.Tensor]] = {
    "prod": ("aten.prod", lambda x: x.prod(), numbers(7, 9)),
    "prod along a dimension": ("aten.prod", lambda x: x.prod(1).sum(), numbers(7, 9)),
    "max": ("aten.max", lambda x: -x.max(), numbers(7, 9)),
    "min": ("aten.min", lambda x: -x.min(), numbers(7, 9)),
    "median": ("aten.median", lambda x: -x.median(), numbers(7, 9)),
    "nanmedian": ("aten.nanmedian", lambda x: -x.nanmedian(), numbers(7, 9)),
    "masked_fill": ("aten.masked_fill", lambda x: (TABLE.masked_fill(MASK, x) * TABLE).sum(), torch.tensor(2.0)),
}

SAME: dict[str, tuple[Function, torch.Tensor]] = {
    "prod of one number": (lambda x: x.prod(), numbers(1)),
    "prod without dimensions": (lambda x: x.prod(), torch.tensor(3.0)),
    "max without dimensions": (lambda x: -x.max(), torch.tensor(3.0)),
    "max along a dimension": (lambda x: -x.max(1).values.sum(), TABLE),
    "amax": (lambda x: -x.amax(), TABLE),
    "masked_fill with a number": (lambda x: (x.masked_fill(MASK, 1.0) * TABLE).sum(), TABLE),
    "masked_fill of what needs a gradient": (lambda x: x.masked_fill(MASK, torch.tensor(2.0)).sum(), TABLE),
    "cumprod of one number": (lambda x: x.cumprod(1).sum(), numbers(7, 1)),
    "index_fill": (lambda x: TABLE.index_fill(0, torch.tensor([1, 2]), x).sum(), torch.tensor(2.0)),
    "norm": (lambda x: x.norm(), TABLE),
    "logsumexp": (lambda x: x.logsumexp(0).sum(), TABLE),
}

_cumprod: Function = lambda x: x.cumprod(1).sum()  # noqa: E731
if Version(torch.__version__) < Version("2.12"):
    CHANGED["cumprod"] = ("aten.cumprod", _cumprod, numbers(7, 9))
else:
    SAME["cumprod"] = (_cumprod, numbers(7, 9))


@pytest.mark.parametrize("name", CHANGED)
def test_a_gradient_that_recording_changes_is_named(name: str) -> None:
    op, function, start = CHANGED[name]
    tracer = DeterminismTracer()
    assert gradient(function, start, tracer) != gradient(function, start, nullcontext()), "same bits: no longer changed"
    (spot,) = changed(tracer)
    assert spot.detail.startswith(f"{op}: recording this call changes it")
    assert spot.location.startswith("tests/recording/calls/test_formulas.py:")
    assert spot.count == 1


@pytest.mark.parametrize("name", SAME)
def test_a_gradient_that_recording_leaves_alone_is_not_named(name: str) -> None:
    function, start = SAME[name]
    tracer = DeterminismTracer()
    assert gradient(function, start, tracer) == gradient(function, start, nullcontext())
    assert not changed(tracer)


def test_a_changed_gradient_bears_the_line_of_the_forward_call_and_counts_its_runs() -> None:
    def step() -> None:
        for dtype in (torch.float32, torch.float32, torch.float64):
            x = numbers(7, 9).to(dtype).requires_grad_()
            x.prod().backward()  # here

    (spot,) = changed(record(step))
    assert spot.location.endswith(f":{line_of(step, '# here')}")
    assert spot.count == 3


def test_what_is_not_differentiated_while_recording_is_not_named() -> None:
    x = numbers(7, 9).requires_grad_()
    tracer = DeterminismTracer()
    with tracer:
        y = x.prod()
        x.detach().max()
    y.backward()
    assert not changed(tracer)

"""Where any dispatch mode changes a program, the recorder steps aside: the program does what it does without one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.library import Library

from tests.support.lines import line_of
from tests.support.modes import CountingMode, EmptyMode
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind


def trace_both() -> tuple[torch.Tensor, torch.Tensor]:
    """A module and a function with a number and a view in it, traced and run."""
    layer = nn.Linear(2, 2)
    traced = torch.jit.trace(layer, torch.ones(1, 2))  # here
    function = torch.jit.trace(lambda x: (x * 2).view(-1).sum(), torch.ones(3, requires_grad=True))
    return traced(torch.ones(1, 2)) - layer(torch.ones(1, 2)), function(torch.ones(3))


@pytest.mark.filterwarnings("ignore")
def test_torch_jit_trace_works_and_is_named_as_a_blind_spot() -> None:
    with pytest.raises(RuntimeError), EmptyMode():
        trace_both()
    with DeterminismTracer() as tracer:
        difference, six = trace_both()
        after = torch.ones(2).sin()
    assert difference.abs().sum() == 0
    assert six == 6
    spots = [spot for spot in tracer.trace.blind_spots if "torch.jit.trace" in spot.detail]
    assert {spot.kind for spot in spots} == {BlindSpotKind.SCRIPTED}
    line = f":{line_of(trace_both, '# here')}"
    assert any(spot.location.endswith(line) for spot in spots)
    assert any(call.op == "aten.sin.default" for call in tracer.trace.calls), "recording goes on behind it"
    assert after.shape == (2,)


@pytest.mark.filterwarnings("ignore")
def test_a_mode_of_the_programs_own_stays_while_the_recorder_steps_aside() -> None:
    with DeterminismTracer() as tracer, CountingMode() as seen:
        torch.jit.trace(lambda x: x.sin(), torch.ones(3))
        torch.ones(3).cos()
    assert "aten.sin.default" in seen.counts
    assert [call.op for call in tracer.trace.calls if "cos" in call.op] == ["aten.cos.default"]


def double(x: torch.Tensor) -> None:
    x.mul_(2)


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    """Ops with kernels alone, made of torch's ops."""
    made = Library("steppingaside", "DEF")
    made.define("cpu(Tensor x) -> Tensor")
    made.impl("cpu", lambda x: x.sin() * 2, "CPU")
    made.define("anywhere(Tensor x) -> Tensor")
    made.impl("anywhere", lambda x: x.sin() * 2, "CompositeExplicitAutograd")
    made.define("doubles(Tensor(a!) x) -> ()")
    made.impl("doubles", double, "CPU")
    yield made
    made._destroy()


def gradient_of(name: str, block: Any) -> tuple[Any, list[str], int]:
    """The gradient through an op, the warnings on the way, and the version of what it wrote."""
    x, written = torch.ones(2, requires_grad=True), torch.ones(2)
    with warnings.catch_warnings(record=True) as warned, block:
        warnings.simplefilter("always")
        y = getattr(torch.ops.steppingaside, name)(x)
        if y.requires_grad:
            y.sum().backward()
        torch.ops.steppingaside.doubles(written)
    return x.grad if x.grad is None else x.grad.tolist(), [str(one.message) for one in warned], written._version


@pytest.mark.parametrize("name", ["cpu", "anywhere"])
def test_gradients_flow_through_an_op_without_an_autograd_kernel(name: str, library: Library) -> None:
    plain = gradient_of(name, nullcontext())
    assert plain[0] is not None
    assert gradient_of(name, EmptyMode())[0] is None, "any mode loses them; if that is mended, so is this"
    tracer = DeterminismTracer()
    assert gradient_of(name, tracer) == plain
    ops = {call.op for call in tracer.trace.calls}
    assert {f"steppingaside.{name}.default", "aten.sin.default", "aten.cos.default"} <= ops


def test_nothing_changes_for_such_an_op_where_no_gradient_is_wanted(library: Library) -> None:
    with torch.no_grad(), DeterminismTracer() as tracer:
        y = torch.ops.steppingaside.cpu(torch.ones(2, requires_grad=True))
    assert not y.requires_grad
    assert [call.op for call in tracer.trace.calls if call.op.startswith("steppingaside")] == [
        "steppingaside.cpu.default"
    ]

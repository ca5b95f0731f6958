"""What ``torch.compile`` can do, with the recorder and without it: the same bits, graphs and breaks, and what a trace
says of it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.lines import line_of
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind, Phase, RegionInside
from tracer.trace import Trace
from tracer.trace.records import Region

Program = Callable[[], list[torch.Tensor]]
DISPATCHED = RegionInside.DISPATCHED


class Block(nn.Module):
    """Something with a product, a loop of C++ and dropout in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: rows of eight."""
        return x + self.second(F.gelu(self.first(x)))


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block())


def rows(count: int = 4) -> torch.Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(1))


def gradients(model: nn.Module, function: Callable[[torch.Tensor], torch.Tensor], steps: int = 2) -> list[torch.Tensor]:
    """Results and gradients of some steps."""
    found = []
    for _ in range(steps):
        out = function(rows())
        out.square().sum().backward()
        found.append(out.detach())
    return found + [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def trained(around: Callable[[Any], Callable[[torch.Tensor], torch.Tensor]], steps: int = 2) -> Program:
    """Steps of a model with what ``around`` makes of it."""

    def run() -> list[torch.Tensor]:
        model = net()
        return gradients(model, around(model), steps)

    return run


def of_any_size(dynamic: bool | None) -> Program:
    def run() -> list[torch.Tensor]:
        compiled = torch.compile(net(), dynamic=dynamic)
        return [compiled(rows(count)).detach() for count in (3, 5, 7)]

    return run


def step_of_an_optimizer() -> list[torch.Tensor]:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = torch.compile(optimizer.step)
    for _ in range(3):
        optimizer.zero_grad()
        model(rows()).sum().backward()
        step()
    return [parameter.detach() for parameter in model.parameters()]


def by_blocks(model: nn.Module) -> nn.Module:
    """Regional compilation: one block is compiled, and serves all."""
    for block in model.children():
        block.compile(fullgraph=True)
    return model


def nested(model: Any) -> Any:
    inner = torch.compile(model[0])
    return torch.compile(lambda x: model[1](inner(x)) * 2)


def breaking(model: Any) -> Any:
    @torch.compile
    def function(x: torch.Tensor) -> Any:
        x = model[0](x)
        torch._dynamo.graph_break()
        return model[1](x)

    return function


def with_checkpoints(model: Any) -> Any:
    return torch.compile(lambda x: model[1](checkpoint(model[0], x, use_reentrant=False)), fullgraph=True)


def inside_a_checkpoint(model: Any) -> Any:
    compiled = torch.compile(model[0])
    return lambda x: model[1](checkpoint(compiled, x, use_reentrant=False))


def by_compiled_autograd() -> list[torch.Tensor]:
    model = net()
    compiled = torch.compile(model)
    with torch._dynamo.config.patch(compiled_autograd=True):

        @torch.compile
        def step(x: torch.Tensor) -> torch.Tensor:
            out = compiled(x)
            out.square().sum().backward()
            return out.detach()

        results = [step(rows()) for _ in range(2)]
    return results + [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def in_parallel() -> list[torch.Tensor]:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        model = nn.parallel.DistributedDataParallel(net())
        return gradients(model, torch.compile(model))
    finally:
        torch.distributed.destroy_process_group()


def flexible_attention() -> list[torch.Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (torch.randn(1, 2, 16, 16, generator=torch.Generator().manual_seed(n)) for n in range(3))
    with torch.no_grad():  # the C++ backend has no gradient for it
        return [torch.compile(flex_attention)(q, k, v)]


def of_torchs_own() -> list[torch.Tensor]:
    """Nothing of the program is within: its calls belong to the lines that called it, backward ones too."""
    loss, words = torch.compile(F.cross_entropy), torch.arange(4)
    given = [rows().requires_grad_() for _ in range(2)]
    one = loss(given[0], words)  # line
    two = loss(given[1], words)
    (one + 2 * two).backward()
    return [one.detach(), two.detach(), *(x.grad for x in given if x.grad is not None)]


def at_its_callers(trace: Trace) -> bool:
    first = line_of(of_torchs_own, "# line")
    found = {(call.phase, int(call.location.rpartition(":")[2]), call.function) for call in trace.calls if call.region}
    return all(
        {(line, function) for phase, line, function in found if phase is wanted}
        == {(first, "of_torchs_own"), (first + 1, "of_torchs_own")}
        for wanted in (Phase.FORWARD, Phase.BACKWARD)
    )


def drops() -> list[torch.Tensor]:
    torch.manual_seed(3)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    return [compiled(rows()) for _ in range(2)]


def own_backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the graph as it is."""
    return graph.forward


class Feature(NamedTuple):
    """A program, and how its inside is seen."""

    run: Program
    inside: RegionInside = RegionInside.OPS_AND_KERNELS
    is_quick: bool = False
    says: Callable[[Trace], bool] = lambda trace: True


def phases(trace: Trace) -> set[Phase]:
    return {call.phase for call in trace.calls if call.region}


def ran(trace: Trace) -> list[Region]:
    return [one for one in trace.regions if one.executions]


FEATURES = {
    "fullgraph": Feature(trained(lambda model: torch.compile(model, fullgraph=True))),
    "reduce-overhead": Feature(
        trained(lambda model: torch.compile(model, mode="reduce-overhead"), 3),
        says=lambda trace: not any(one.uses_cuda_graphs for one in trace.regions),
    ),
    "dynamic": Feature(of_any_size(True), says=lambda trace: [one.executions for one in ran(trace)] == [3]),
    "recompiled": Feature(of_any_size(None), says=lambda trace: [one.executions for one in ran(trace)] == [1, 2]),
    "optimizer.step": Feature(step_of_an_optimizer, says=lambda trace: phases(trace) == {Phase.OPTIMIZER}),
    "regional": Feature(
        trained(by_blocks),
        says=lambda trace: (
            {one.function for one in trace.regions} == {"Block.forward"}
            and {"Sequential.0", "Sequential.1"} <= {call.module for call in trace.calls if call.region}
        ),
    ),
    "nested": Feature(trained(nested)),
    "graph break": Feature(trained(breaking), says=lambda trace: len(trace.regions) == 4),
    "compiled autograd": Feature(
        by_compiled_autograd, says=lambda trace: any(one.by_compiled_autograd for one in trace.regions)
    ),
    "checkpoint inside": Feature(trained(with_checkpoints), says=lambda trace: Phase.RECOMPUTE in phases(trace)),
    "inside a checkpoint": Feature(trained(inside_a_checkpoint), says=lambda trace: Phase.RECOMPUTE in phases(trace)),
    "DDP": Feature(in_parallel),
    "FlexAttention": Feature(
        flexible_attention,
        says=lambda trace: any(call.op == "higher_order.flex_attention" and call.region for call in trace.calls),
    ),
    "function of torch's own": Feature(of_torchs_own, says=at_its_callers),
    "random numbers": Feature(drops),
    "aot_eager": Feature(
        trained(lambda model: torch.compile(model, backend="aot_eager")),
        DISPATCHED,
        is_quick=True,
        says=lambda trace: not trace.blind_spots,
    ),
    "eager": Feature(trained(lambda model: torch.compile(model, backend="eager")), DISPATCHED, is_quick=True),
    "own backend": Feature(
        trained(lambda model: torch.compile(model, backend=own_backend)),
        RegionInside.UNSEEN,
        is_quick=True,
        says=lambda trace: any(spot.kind is BlindSpotKind.COMPILED for spot in trace.blind_spots),
    ),
}


@pytest.fixture(autouse=True)
def anew(inductor: None) -> Iterator[None]:
    """Each program is compiled anew, from an empty cache of its own."""
    from torch._inductor import config

    with config.patch(force_disable_caches=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


def compiled(
    run: Callable[[], list[torch.Tensor]], around: Any
) -> tuple[list[torch.Tensor], dict[str, dict[str, int]]]:
    """What a program gives, and what dynamo counted: graphs, and why they broke."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with around:
        results = run()
    counted = torch._dynamo.utils.counters
    return results, {name: dict(counted[name]) for name in ("stats", "graph_break")}


def marked() -> Iterator[Any]:
    for name, feature in FEATURES.items():
        yield pytest.param(feature, id=name, marks=() if feature.is_quick else (pytest.mark.slow,))


@pytest.mark.parametrize("feature", marked())
def test_it_runs_as_without_the_recorder_and_is_seen(feature: Feature) -> None:
    plain, counted = compiled(feature.run, contextlib.nullcontext())
    tracer = DeterminismTracer()
    recorded, counted_too = compiled(feature.run, tracer)
    assert counted_too == counted
    assert len(plain) == len(recorded) > 0
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))
    trace = tracer.trace
    regions = ran(trace) if feature.inside is RegionInside.OPS_AND_KERNELS else list(trace.regions)
    assert {one.inside for one in regions} == {feature.inside}
    for region in regions:
        assert sum(call.count for call in trace.calls if call.region == region.id) == region.ops * region.executions
    assert feature.says(trace)

"""What runs inside compiled code without being dispatched: graphs of higher-order ops, packages, other backends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn

from tests.support.lines import groups, line_of, lines, one, record
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind, Phase
from tracer.recording.torch_private import compile_seams

ROWS = 20_000


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What rows are added to, at which indices, and the rows."""
    return torch.zeros(50, 16), torch.randint(0, 50, (ROWS,)), torch.randn(ROWS, 16)


def added(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return into.index_add(0, index, values).sinh()


def left_alone(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return into + values[0]


def branching(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> Any:
    return torch.cond(values[0, 0] > -100, added, left_alone, (into, index, values))


nested = torch.compiler.nested_compile_region(added)


def nesting(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> Any:
    return nested(nested(into, index, values), index, values)


def own(graph: Any, example: Any) -> Any:
    """A backend that hands its graph to Inductor."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, example)


@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize(
    ("step", "backend", "times"), [(branching, "inductor", 1), (nesting, "inductor", 2), (nesting, own, 2)]
)
def test_ops_of_a_graph_within_bear_their_lines_and_kernel(step: Callable[..., Any], backend: Any, times: int) -> None:
    torch._dynamo.reset()
    tracer = record(lambda: torch.compile(step, backend=backend)(*inputs()))
    put = one(tracer, "aten.index_put")
    assert (lines([put]), put.count) == ({line_of(added, "index_add")}, times)
    (region,) = tracer.trace.regions
    assert region.backend == "inductor"
    assert any(kernel.atomic for kernel in region.kernels if kernel.name in put.kernels)
    findings = tracer.report(backend="cpu").findings
    assert {finding.op for finding in findings if finding.location == put.location} == {"aten.index_put.default"}


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
@pytest.mark.parametrize("is_distinct", [True, False])
def test_indices_that_eager_code_made_distinct_are_distinct_in_a_region(is_distinct: bool) -> None:
    step = torch.compile(lambda into, index, values: into.index_add(0, index, values))

    def run() -> None:
        rows = torch.where(torch.ones(ROWS))[0] if is_distinct else torch.randint(0, ROWS, (ROWS,))
        step(torch.zeros(ROWS, 4), rows, torch.randn(ROWS, 4))

    torch._dynamo.reset()
    tracer = record(run)
    assert one(tracer, "aten.index_put").facts.get("index.distinct", False) is is_distinct


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
@pytest.mark.parametrize("limit", [8, 1])
def test_a_sum_is_written_out_below_inductors_limit_alone(limit: int) -> None:
    torch._dynamo.reset()
    with torch._inductor.config.patch(unroll_reductions_threshold=limit):
        tracer = record(lambda: torch.compile(lambda values: values.sin().sum(1))(torch.randn(64, 4)))
    assert one(tracer, "aten.sum").facts.get("shape.is_unrolled", False) is (limit == 8)


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
def test_draws_in_a_region_tell_who_had_seeded_when_it_ran() -> None:
    step = torch.compile(lambda values: values + torch.rand(64))

    def run() -> None:
        torch.manual_seed(time.time_ns() % 2**31)
        step(torch.zeros(64))

    torch._dynamo.reset()
    tracer = record(run)
    torch.manual_seed(0)
    assert one(tracer, "prims.inductor_seeds").facts["rng.origin"] == "machine"


@pytest.mark.skipif(compile_seams.package_loader is None, reason="this torch loads no packages")
def test_a_call_of_a_loaded_package_is_a_blind_spot_at_its_line_though_it_fails() -> None:
    def step() -> None:
        with pytest.raises(TypeError):
            compile_seams.package_loader.run(None, [])  # runs

    (spot,) = record(step).trace.blind_spots
    assert (spot.kind, spot.count) == (BlindSpotKind.COMPILED, 1)
    assert int(spot.location.rpartition(":")[2]) == line_of(step, "# runs")


class Gathers(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return values * 2

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0].sinh()


@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_python_within_a_compiled_backward_is_told_at_its_own_line_or_that_of_its_forward(backend: str) -> None:
    def step(values: torch.Tensor) -> torch.Tensor:
        return Gathers.apply(values).exp()

    torch._dynamo.reset()
    values = torch.randn(64, 8, requires_grad=True)
    group = one(record(lambda: torch.compile(step, backend=backend)(values).sum().backward()), "aten.sinh")
    assert group.phase is Phase.BACKWARD
    assert lines([group]) <= {line_of(Gathers.backward, "sinh()"), line_of(step, "Gathers.apply")}


@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_backend_that_runs_the_graph_op_by_op_bears_the_programs_lines(backend: str) -> None:
    def step(values: torch.Tensor) -> torch.Tensor:
        doubled = values * 2
        return doubled.sinh()  # here

    torch._dynamo.reset()
    group = one(record(lambda: torch.compile(step, backend=backend)(torch.randn(64, 8))), "aten.sinh")
    assert lines([group]) == {line_of(step, "# here")}


@pytest.mark.usefixtures("inductor")
def test_paths_begin_at_the_model_that_was_given_although_a_function_around_it_was_compiled() -> None:
    torch._dynamo.reset()
    net = nn.Sequential(nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.Linear(8, 8)))
    step = torch.compile(lambda values: net(values).sinh())
    tracer = record(lambda: step(torch.randn(2, 8)), net)
    assert {group.module for group in groups(tracer, "aten.addmm")} <= {"0", "0.0", "1", "1.0"}


#: What AOTAutograd adds, or gives another form.
_REARRANGED = {"detach", "view", "_unsafe_view", "t", "empty_strided", "copy_", "expand", "transpose", "permute"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.linear(x)))


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(10, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        x = self.table(index)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


Program = Callable[[Nested, Callable[[Any], Any]], Any]


def paths(program: Program, backend: str | None, *, is_known: bool) -> set[tuple[str, str, str]]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    net = Nested()
    run = program(net, lambda called: called if backend is None else torch.compile(called, backend=backend))
    with DeterminismTracer(net if is_known else None) as tracer:
        run(torch.tensor([[1, 2], [3, 1]])).sum().backward()
    named = ((group.phase.value, group.op.split(".")[1], group.module) for group in tracer.trace.calls)
    return {call for call in named if call[1] not in _REARRANGED}


@pytest.mark.parametrize(
    ("program", "is_known"),
    [(lambda net, compiled: compiled(net), True), (lambda net, compiled: compiled(lambda index: net(index)), False)],
    ids=["a model that was given", "a function that calls one that was not"],
)
def test_paths_of_a_graph_that_runs_as_a_program_are_those_of_eager_calls(program: Program, is_known: bool) -> None:
    eager = paths(program, None, is_known=is_known)
    assert ("backward", "native_layer_norm_backward", f"{'' if is_known else 'Nested.'}blocks.1.norm") in eager
    assert paths(program, "aot_eager", is_known=is_known) == eager
    assert paths(program, "eager", is_known=is_known) == eager


def test_a_submodule_that_is_compiled_alone_keeps_the_path_that_leads_to_it() -> None:
    torch._dynamo.reset()
    net = Nested()
    net.blocks[1].compile(backend="aot_eager")
    with DeterminismTracer(net) as tracer:
        net(torch.tensor([[1, 2]])).sum().backward()
    norms = {(group.phase.value, group.module) for group in tracer.trace.calls if "native_layer_norm" in group.op}
    assert norms == {(phase, f"blocks.{n}.norm") for phase in ("forward", "backward") for n in (0, 1)}

"""The ways in which ``torch.compile`` is called: backends, modes, options, settings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def default_varies() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        scaled = values * 2
        return into.index_add(0, index, scaled)  # varies: cpu cuda

    step(into, index, values)


@program
def default_clean() -> None:
    into, index, values = torch.zeros(SLOTS, WIDE, dtype=torch.int32), slots(), rows().int()

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        scaled = values * 2
        return into.index_add(0, index, scaled)

    step(into, index, values)


@program
def fullgraph_varies() -> None:
    torch.manual_seed(0)
    embedding = nn.Embedding(SLOTS, WIDE)
    index = slots()

    @torch.compile(fullgraph=True)
    def step(index: torch.Tensor) -> torch.Tensor:
        words = embedding(index)  # varies: cpu cuda
        return words.sin().sum()

    step(index).backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def fullgraph_clean() -> None:
    torch.manual_seed(0)
    embedding = nn.Embedding(SLOTS, WIDE)
    scale = nn.Parameter(torch.ones(1, WIDE))
    embedding.weight.requires_grad_(False)
    index = slots()

    @torch.compile(fullgraph=True)
    def step(index: torch.Tensor) -> torch.Tensor:
        words = embedding(index)
        return (words * scale).sin().sum()

    step(index).backward()


@program
def dynamic_varies() -> None:
    @torch.compile(dynamic=True)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_put((index,), values.cos(), accumulate=True)  # varies: cpu cuda

    for count in (ROWS, ROWS + 7):
        step(table(), slots(count), rows(count, WIDE))


@program
def dynamic_clean() -> None:
    @torch.compile(dynamic=True)
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        index = torch.arange(values.shape[0]).flip(0)
        return into.index_put((index,), values.cos(), accumulate=True)

    for count in (ROWS, ROWS + 7):
        step(torch.zeros(ROWS + 7, WIDE), rows(count, WIDE))


@program
def max_autotune_varies() -> None:
    values = rows().requires_grad_()
    index = torch.randint(0, WIDE, (ROWS, WIDE))

    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        picked = values.gather(1, index)  # varies: cuda
        return picked.exp()

    step(values, index).backward(torch.ones(ROWS, WIDE))


@program
def max_autotune_clean() -> None:
    values = rows().requires_grad_()

    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(values: torch.Tensor) -> torch.Tensor:
        picked = values.narrow(1, 0, 8)
        return picked.exp()

    step(values).backward(torch.ones(ROWS, 8))


@program
def reduce_overhead_varies() -> None:
    values, index = rows(), slots()

    @torch.compile(mode="reduce-overhead")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        chosen = torch.zeros(SLOTS, WIDE)
        chosen[index] = values  # varies: cpu cuda
        return chosen.tanh()

    step(values, index)


@program
def reduce_overhead_clean() -> None:
    values, index = rows(), slots()

    @torch.compile(mode="reduce-overhead")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        chosen = torch.zeros(SLOTS, WIDE)
        chosen[index] = 1.0
        return chosen.tanh() + values.narrow(0, 0, SLOTS)

    step(values, index)


@program
def aot_eager_varies() -> None:
    logits, targets = rows(4, 10, 8, 8).requires_grad_(), torch.randint(0, 10, (4, 8, 8))

    @torch.compile(backend="aot_eager")
    def step(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits * 2, targets)  # varies: cuda

    step(logits, targets).backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def aot_eager_clean() -> None:
    logits, targets = rows(4, 10, 8, 8).requires_grad_(), torch.randint(0, 10, (4, 8, 8))

    @torch.compile
    def step(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits * 2, targets)

    step(logits, targets).backward()


@program
def eager_backend_varies() -> None:
    values = rows(ROWS)

    @torch.compile(backend="eager")
    def step(values: torch.Tensor) -> torch.Tensor:
        shifted = values + 1
        return shifted.cumsum(0)  # varies: cuda

    step(values)


@program
def eager_backend_clean() -> None:
    values = torch.randint(0, 9, (ROWS,))

    @torch.compile(backend="eager")
    def step(values: torch.Tensor) -> torch.Tensor:
        shifted = values + 1
        return shifted.cumsum(0)

    step(values)


def _calls_compile_fx(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, inputs)


@program
def own_backend_of_inductor_varies() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile(backend=_calls_compile_fx)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        mean = values - values.mean(1, keepdim=True)
        return into.index_add(0, index, mean)  # varies: cpu cuda

    step(into, index, values)


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def own_backend_of_inductor_clean() -> None:
    logits, targets = rows(4, 10, 8, 8).requires_grad_(), torch.randint(0, 10, (4, 8, 8))

    @torch.compile(backend=_calls_compile_fx)
    def step(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(F.log_softmax(logits, 1), targets)

    step(logits, targets).backward()


def _compiles_both_halves(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    return aot_autograd(fw_compiler=compile_fx_inner, decompositions=select_decomp_table())(graph, inputs)


@program
def own_halves_varies() -> None:
    values, index = rows().requires_grad_(), slots()

    @torch.compile(backend=_compiles_both_halves)
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        picked = values.index_select(0, index)  # varies: cpu cuda
        return picked.square()

    step(values, index).backward(torch.ones(ROWS, WIDE))


@program
def own_halves_clean() -> None:
    values = rows().requires_grad_()

    @torch.compile(backend=_compiles_both_halves)
    def step(values: torch.Tensor) -> torch.Tensor:
        picked = values.narrow(0, 5, 1000)
        return picked.square()

    step(values).backward(torch.ones(1000, WIDE))


def _runs_the_graph(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return graph.forward


@program
def own_eager_backend_varies() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile(backend=_runs_the_graph)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values * 3)  # varies: cuda

    step(into, index, values)


@program
def own_eager_backend_clean() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile(backend=_runs_the_graph)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_select(0, index) + values * 3

    step(into, index, values)


@accused_as_a_whole("cuda")
def autotuned_product_varies() -> None:
    left, right = rows(256, 256), rows(256, 256)

    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left * right).sum(1)

    step(left, right)


@program
def autotuned_product_clean() -> None:
    import torch._inductor.config

    left, right = rows(256, 256), rows(256, 256)

    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left * right).sum(1)

    with torch._inductor.config.patch(deterministic=True):
        step(left, right)


@program
def deterministic_mode_varies() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.relu(into.index_put((index,), values, accumulate=True))  # varies: cpu cuda

    step(into, index, values)


@program
def deterministic_mode_clean() -> None:
    into, index, values = table(), slots(), rows()

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.relu(into.index_put((index,), values, accumulate=True))

    torch.use_deterministic_algorithms(True)
    try:
        step(into, index, values)
    finally:
        torch.use_deterministic_algorithms(False)


@program
def options_varies() -> None:
    values = rows(ROWS).requires_grad_()

    @torch.compile(options={"epilogue_fusion": True, "max_autotune": False})
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.unfold(0, 4, 1).sigmoid()  # varies: cpu cuda

    step(values).backward(torch.ones(ROWS - 3, 4))


@program
def options_clean() -> None:
    values = rows(ROWS).requires_grad_()

    @torch.compile(options={"epilogue_fusion": True, "max_autotune": False})
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.view(ROWS // 4, 4).sigmoid()

    step(values).backward(torch.ones(ROWS // 4, 4))

"""Second list: sizes and modes of compilation, parts of a program that are compiled apart, backends, training steps."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots, table


@program
def any_size_varies() -> None:
    @torch.compile(dynamic=True)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values * 3)  # varies: cpu cuda

    for count in (ROWS, ROWS + 128):
        step(table(), slots(count), rows(count, WIDE))


@program
def any_size_clean() -> None:
    @torch.compile(dynamic=True)
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values * 3)

    for count in (ROWS, ROWS + 128):
        step(table().int(), slots(count), torch.randint(0, 9, (count, WIDE), dtype=torch.int32))


@program
def tuned_gradient_varies() -> None:
    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values.index_select(0, index).sigmoid()  # varies: cpu cuda

    step(table().requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def tuned_gradient_clean() -> None:
    @torch.compile(mode="max-autotune-no-cudagraphs")
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.narrow(0, 3, SLOTS).sigmoid()

    step(rows().requires_grad_()).backward(torch.ones(SLOTS, WIDE))


@program
def replayed_varies() -> None:
    @torch.compile(mode="reduce-overhead")
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_put((index,), values, accumulate=True).tanh()  # varies: cpu cuda

    step(table(), slots(), rows())


@program
def replayed_clean() -> None:
    @torch.compile(mode="reduce-overhead")
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return (into[index] + values).tanh()

    step(table(), slots(), rows())


@program
def batched_varies() -> None:
    def spread(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS).index_add(0, index, values)  # varies: cpu cuda

    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(spread)(index, values).sin()

    step(slots(4 * ROWS).view(4, ROWS), rows(4, ROWS))


@program
def batched_clean() -> None:
    def picked(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return values.index_select(0, index)

    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(picked)(index, values).sin()

    step(slots(4 * ROWS).view(4, ROWS), rows(4, ROWS))


@program
def branch_gradient_varies() -> None:
    def picked(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values[index].sin()  # varies: cpu cuda

    def shifted(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values + 1

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.cond(values[0, 0] < 100, picked, shifted, (values, index))

    step(rows().requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def branch_gradient_clean() -> None:
    def picked(values: torch.Tensor) -> torch.Tensor:
        return values.flip(0).sin()

    def shifted(values: torch.Tensor) -> torch.Tensor:
        return values + 1

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return torch.cond(values[0, 0] < 100, picked, shifted, (values,))

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def read_back_varies() -> None:
    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        scale = weight.sin()
        if weight[0, 0].item() > 100:
            scale = scale + 1
        return F.embedding(index, scale)  # varies: cpu cuda

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def read_back_clean() -> None:
    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        scale = weight.sin()
        if weight[0, 0].item() > 100:
            scale = scale + 1
        return scale[5:].cos()

    step(rows(SLOTS, WIDE).requires_grad_()).backward(torch.ones(SLOTS - 5, WIDE))


@program
def compiled_twice_varies() -> None:
    class Inner(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return table().index_add(0, index, values)  # varies: cpu cuda

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(Inner())

        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return self.inner(values.cos(), index).sin()

    torch.compile(Outer())(rows(), slots())


@program
def compiled_twice_clean() -> None:
    class Inner(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return values.index_select(0, index)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(Inner())

        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return self.inner(values.cos(), index).sin()

    torch.compile(Outer())(rows(), slots())


@program
def two_backends_varies() -> None:
    @torch.compile(backend="aot_eager")
    def spread(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)  # varies: cuda

    @torch.compile
    def finish(values: torch.Tensor) -> torch.Tensor:
        return values.sin() + 1

    finish(spread(table(), slots(), rows()))


@program
def two_backends_clean() -> None:
    @torch.compile(backend="aot_eager")
    def spread(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)

    @torch.compile
    def finish(values: torch.Tensor) -> torch.Tensor:
        return values.sin() + 1

    finish(spread(table().int(), slots(), torch.randint(0, 9, (ROWS, WIDE), dtype=torch.int32)))


@program
def functional_gradient_varies() -> None:
    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda held: held[index].sin().sum())(weight)  # varies: cpu cuda

    step(rows(SLOTS, WIDE), slots())


@program
def functional_gradient_clean() -> None:
    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda held: held[7:].sin().sum())(weight)

    step(rows(SLOTS, WIDE))


@program
def functional_call_varies() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(SLOTS, WIDE))

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.weight[index].exp()  # varies: cpu cuda

    model = Words()

    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"weight": weight}, (index,))

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def functional_call_clean() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(SLOTS, WIDE))

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.weight.exp() * index

    model = Words()

    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"weight": weight}, (index,))

    step(rows(SLOTS, WIDE).requires_grad_(), slots(SLOTS)[:, None]).backward(torch.ones(SLOTS, WIDE))


@program
def own_forward_varies() -> None:
    class Spreads(torch.autograd.Function):
        @staticmethod
        def forward(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.zeros(SLOTS, WIDE).index_add(0, index, values)  # varies: cpu cuda

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.save_for_backward(inputs[1])

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (index,) = context.saved_tensors
            return gradients[0].index_select(0, index), None

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return Spreads.apply(values * 2, index)

    step(rows().requires_grad_(), slots()).backward(torch.ones(SLOTS, WIDE))


@program
def own_forward_clean() -> None:
    class Scales(torch.autograd.Function):
        @staticmethod
        def forward(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return values * scale

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.save_for_backward(inputs[1])

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (scale,) = context.saved_tensors
            return gradients[0] * scale, None

    @torch.compile
    def step(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return Scales.apply(values * 2, scale)

    step(rows().requires_grad_(), rows(ROWS, 1)).backward(torch.ones(ROWS, WIDE))


@program
def optimizer_step_varies() -> None:
    weight, index = nn.Parameter(rows(SLOTS, WIDE)), slots()
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    weight.index_select(0, index).backward(torch.ones(ROWS, WIDE))  # varies: cuda

    @torch.compile
    def update() -> None:
        optimizer.step()

    update()


@program
def optimizer_step_clean() -> None:
    weight = nn.Parameter(rows(SLOTS, WIDE))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    weight.narrow(0, 2, 9).backward(torch.ones(9, WIDE))

    @torch.compile
    def update() -> None:
        optimizer.step()

    update()


@program
def sparse_update_varies() -> None:
    @torch.compile
    def update(weight: torch.Tensor, index: torch.Tensor, gradient: torch.Tensor) -> None:
        weight.mul_(0.99)
        weight.t().index_add_(1, index, gradient.t(), alpha=-0.1)  # varies: cpu cuda

    update(table(), slots(), rows())


@program
def sparse_update_clean() -> None:
    @torch.compile
    def update(weight: torch.Tensor, gradient: torch.Tensor) -> None:
        weight.mul_(0.99)
        weight.t().add_(gradient.t(), alpha=-0.1)

    update(table(), rows(SLOTS, WIDE))


@program
def fresh_seed_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values + torch.rand(ROWS, WIDE)  # varies: cpu cuda

    values = rows(1, WIDE)
    torch.seed()  # varies: cpu cuda
    step(values)


@program
def fresh_seed_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values + torch.rand(ROWS, WIDE)

    values = rows(1, WIDE)
    torch.manual_seed(7)
    step(values)


@program
def python_indexing_varies() -> None:
    @torch.compile(backend="eager")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values[index].sin()  # varies: cpu

    step(table().requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def python_indexing_clean() -> None:
    @torch.compile(backend="eager")
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values[4:].sin()

    step(table().requires_grad_(), slots()).backward(torch.ones(SLOTS - 4, WIDE))


def _runs_both_graphs(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def unchanged(part: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return make_boxed_func(part.forward)

    return aot_autograd(fw_compiler=unchanged)(graph, inputs)


@program
def own_aot_backend_varies() -> None:
    @torch.compile(backend=_runs_both_graphs)
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values.index_select(0, index).sin()  # varies: cuda

    step(table().requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def own_aot_backend_clean() -> None:
    @torch.compile(backend=_runs_both_graphs)
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.embedding(index, values).sin()

    step(table().requires_grad_(), slots(SLOTS)).backward(torch.ones(SLOTS, WIDE))


@program
def second_graph_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor, adds: bool) -> torch.Tensor:
        if adds:
            return into.index_add(0, index, values)  # varies: cpu cuda
        return into + values[:SLOTS]

    for adds in (False, True):
        step(table(), slots(), rows(), adds)


@program
def second_graph_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor, adds: bool) -> torch.Tensor:
        if adds:
            return into + values.index_select(0, index[:SLOTS])
        return into + values[:SLOTS]

    for adds in (False, True):
        step(table(), slots(), rows(), adds)

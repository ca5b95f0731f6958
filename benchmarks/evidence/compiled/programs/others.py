"""Packages, graph breaks, draws, fallbacks, casts, several models."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch._inductor
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def package_varies() -> None:
    class Sums(nn.Module):
        def forward(self, into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return into.index_add(0, index, values)  # varies: cpu cuda

    inputs = (table(), slots(), rows())
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(Sums(), inputs)
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(Path(folder, "sums.pt2")))
        model = torch._inductor.aoti_load_package(path)
        model(*inputs)


@program
def package_clean() -> None:
    class Sums(nn.Module):
        def forward(self, into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return into + values[:SLOTS].sin()

    inputs = (table(), rows())
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(Sums(), inputs)
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(Path(folder, "sums.pt2")))
        model = torch._inductor.aoti_load_package(path)
        model(*inputs)


@program
def exported_varies() -> None:
    class Sums(nn.Module):
        def forward(self, into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return into.index_add(0, index, values)  # varies: cpu cuda

    inputs = (table(), slots(), rows())
    torch.compile(torch.export.export(Sums(), inputs).module())(*inputs)


@program
def exported_clean() -> None:
    class Sums(nn.Module):
        def forward(self, into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return into + values[:SLOTS].sin()

    inputs = (table(), rows())
    torch.compile(torch.export.export(Sums(), inputs).module())(*inputs)


@program
def graph_break_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        scaled = values * 2
        torch._dynamo.graph_break()
        total = into.index_add(0, index, scaled)  # varies: cpu cuda
        torch._dynamo.graph_break()
        return total.sin()

    step(table(), slots(), rows())


@program
def graph_break_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        scaled = values * 2
        torch._dynamo.graph_break()
        total = into + scaled[:SLOTS]
        torch._dynamo.graph_break()
        return total.sin()

    step(table(), rows())


@program
def eager_within_varies() -> None:
    @torch.compiler.disable
    def gathered(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)  # varies: cuda

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return gathered(into, index, values * 2).sin()

    step(table(), slots(), rows())


@program
def eager_within_clean() -> None:
    @torch.compiler.disable
    def gathered(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into + values.index_select(0, index[:SLOTS])

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return gathered(into, index, values * 2).sin()

    step(table(), slots(), rows())


@program
def draw_inside_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        noisy = F.dropout(values, 0.5)
        index = torch.randint(0, SLOTS, (ROWS,))
        return into.index_add(0, index, noisy)  # varies: cpu cuda

    step(table(), rows())


@program
def draw_inside_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        noisy = F.dropout(values, 0.5)
        return noisy + torch.rand(ROWS, 1)

    step(rows())


@program
def custom_op_varies() -> None:
    @torch.library.custom_op("twins::spread", mutates_args=())
    def spread(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)  # varies: cuda

    @spread.register_fake
    def _(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(into)

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return spread(into, index, values * 2).sin()

    step(table(), slots(), rows())


@program
def custom_op_clean() -> None:
    @torch.library.custom_op("twins::halved", mutates_args=())
    def halved(values: torch.Tensor) -> torch.Tensor:
        return values * 0.5

    @halved.register_fake
    def _(values: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(values)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return halved(values * 2).sin()

    step(rows())


@program
def fallback_beside_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = index[:, None].expand(ROWS, WIDE)
        summed = torch.zeros(SLOTS, WIDE).scatter_add(0, wide, values.sin())  # varies: cuda
        return summed.cos(), into.index_add(0, index, values.sin())  # varies: cpu cuda

    step(table(), slots(), rows())


@program
def fallback_beside_clean() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = index[:, None].expand(ROWS, WIDE)
        largest = torch.zeros(SLOTS, WIDE).scatter_reduce(0, wide, values.sin(), "amax")
        return largest.cos(), values.sin().sort(dim=1, stable=True)[0]

    step(slots(), rows())


@program
def resized_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        grown = F.interpolate(images, scale_factor=2.0, mode="bilinear")  # varies: cuda
        return grown.sin()

    step(rows(2, 3, 32, 32).requires_grad_()).backward(torch.ones(2, 3, 64, 64))


@program
def resized_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        grown = F.interpolate(images, scale_factor=2.0, mode="bilinear")
        return grown.sin()

    step(rows(2, 3, 32, 32))


@program
def cast_varies() -> None:
    weight, scale = rows(SLOTS, WIDE).requires_grad_(), rows(WIDE)

    @torch.compile
    def step(index: torch.Tensor) -> torch.Tensor:
        words = F.embedding(index, weight)  # varies: cpu cuda
        return (words.to(torch.bfloat16) * scale).float().sum()

    with torch.autocast("cpu", torch.bfloat16):
        loss = step(slots())
    loss.backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def cast_clean() -> None:
    weight, scale = rows(SLOTS, WIDE).requires_grad_(), rows(WIDE)

    @torch.compile
    def step(index: torch.Tensor) -> torch.Tensor:
        words = F.embedding(index, weight.detach())
        return ((words + weight[0]).to(torch.bfloat16) * scale).float().sum()

    with torch.autocast("cpu", torch.bfloat16):
        loss = step(slots())
    loss.backward()


@program
def several_models_varies() -> None:
    class Adds(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return table().index_add(0, index, values)  # varies: cpu cuda

    class Scales(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values * 2

    first, second = torch.compile(Scales()), torch.compile(Adds())
    second(first(rows()), slots())


@program
def several_models_clean() -> None:
    class Selects(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return values.index_select(0, index)

    class Scales(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values * 2

    first, second = torch.compile(Scales()), torch.compile(Selects())
    second(first(rows()), slots())


@program
def two_addends_varies() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS, ROWS).index_add(0, index, values)  # varies: cpu cuda

    step(slots(3), rows(3, ROWS))


@program
def two_addends_clean() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS, ROWS).index_add(0, index, values)

    step(slots(2), rows(2, ROWS))


@program
def shuffled_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        return into.index_copy(0, order.flip(0), values)  # varies: cpu cuda

    step(rows(), rows(), torch.randint(0, ROWS, (ROWS,)))


@program
def shuffled_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_copy(0, torch.randperm(ROWS).flip(0), values)

    step(rows(), rows())


@program
def layers_varies() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDE))

        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return (values * self.weight)[index]  # varies: cpu cuda

    layers = nn.ModuleList(Layer() for _ in range(2))
    for layer in layers:
        layer.compile()
    index, values = slots(), rows().requires_grad_()
    for layer in layers:
        values = layer(values, index)
    values.sum().backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def layers_clean() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1, WIDE))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return (values * self.weight)[1:]

    layers = nn.ModuleList(Layer() for _ in range(2))
    for layer in layers:
        layer.compile()
    values = rows().requires_grad_()
    for layer in layers:
        values = layer(values)
    values.sum().backward()


@program
def buffer_varies() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(SLOTS))

        def forward(self, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            self.seen.mul_(0.9)
            self.seen.put_(index, values, accumulate=True)  # varies: cpu cuda
            return self.seen.sum()

    torch.compile(Counts())(slots(), rows(ROWS))


@program  # the sum of few numbers has one configuration
def buffer_clean() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(SLOTS))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            self.seen.mul_(0.9)
            self.seen.add_(values[:SLOTS])
            return self.seen.sum()

    torch.compile(Counts())(rows(ROWS))


@program
def write_by_mask_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        held = values.clone()
        held[index] = held[index] + fresh  # varies: cpu cuda
        return held

    step(rows(SLOTS, WIDE), slots(), rows())


@program
def write_by_mask_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        held = values.clone()
        held[held > 0] = 0.5
        return held

    step(rows())

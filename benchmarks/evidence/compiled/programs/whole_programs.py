"""Third list: recompilation, graph breaks, packages, custom ops, settings and numbers that come from outside."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import torch
import torch._inductor
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def new_lengths_varies() -> None:
    words = nn.Embedding(SLOTS, WIDE)
    model = torch.compile(nn.Sequential(words, nn.Tanh()))
    for count in (ROWS, ROWS + 3, ROWS + 50):
        model(slots(count)).backward(torch.ones(count, WIDE))  # varies: cpu cuda


@program
def new_lengths_clean() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2 * ROWS, WIDE))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return (values * self.weight[: values.shape[0]]).tanh()

    model = torch.compile(Model())
    for count in (ROWS, ROWS + 3, ROWS + 50):
        model(rows(count, WIDE)).backward(torch.ones(count, WIDE))


class _Logs(nn.Module):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        print(end="")  # breaks the graph
        return values * 2


@program
def logging_layer_varies() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logs = _Logs()

        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            values = self.logs(values.sin())
            return values.index_select(0, index).cos()  # varies: cpu cuda

    torch.compile(Model())(table().requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def logging_layer_clean() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logs = _Logs()

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            values = self.logs(values.sin())
            return values.flip(0).cos()

    torch.compile(Model())(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@accused_as_a_whole("cuda")  # the product is timed against kernels of Inductor's own
def tuned_product_varies() -> None:
    layer = torch.compile(nn.Linear(256, 512, bias=False), mode="max-autotune-no-cudagraphs")
    with torch.no_grad():
        layer(rows(1024, 256))


@program
def tuned_product_clean() -> None:
    layer = torch.compile(nn.Linear(256, 512, bias=False))
    with torch.no_grad():
        layer(rows(1024, 256))


@program
def routed_varies() -> None:
    class Router(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            def picked(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
                return values.gather(1, index).sin()  # varies: cuda

            def straight(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
                return values * 3

            return torch.cond(values[0, 0] < 100, picked, straight, (values, index))

    index = torch.randint(0, WIDE, (ROWS, WIDE))
    torch.compile(Router())(rows().requires_grad_(), index).backward(torch.ones(ROWS, WIDE))


@program
def routed_clean() -> None:
    class Router(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            def reversed_(values: torch.Tensor) -> torch.Tensor:
                return values.flip(1).sin()

            def straight(values: torch.Tensor) -> torch.Tensor:
                return values * 3

            return torch.cond(values[0, 0] < 100, reversed_, straight, (values,))

    torch.compile(Router())(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def region_of_layers_varies() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(SLOTS, WIDE))

        @torch.compiler.nested_compile_region
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return (values + self.bias[index]).tanh()  # varies: cpu cuda

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                values = layer(values, index)
            return values

    torch.compile(Model(), fullgraph=True)(rows(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def region_of_layers_clean() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(ROWS, WIDE))

        @torch.compiler.nested_compile_region
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return (values * self.scale).tanh()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                values = layer(values)
            return values

    torch.compile(Model(), fullgraph=True)(rows()).backward(torch.ones(ROWS, WIDE))


@program
def shipped_varies() -> None:
    class Stores(nn.Module):
        def forward(self, into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return into.index_put((index,), values.sin())  # varies: cpu cuda

    inputs, count = (table(), slots(), rows()), torch.export.Dim("count", min=2, max=2**20)
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(Stores(), inputs, dynamic_shapes=({}, {0: count}, {0: count}))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(Path(folder, "stores.pt2")))
        torch._inductor.aoti_load_package(path)(*inputs)


@program
def shipped_clean() -> None:
    class Reads(nn.Module):
        def forward(self, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return values.sin()[index]

    inputs, count = (table(), slots()), torch.export.Dim("count", min=2, max=2**20)
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(Reads(), inputs, dynamic_shapes=({}, {0: count}))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(Path(folder, "reads.pt2")))
        torch._inductor.aoti_load_package(path)(*inputs)


@program
def composite_op_varies() -> None:
    library = torch.library.Library("twins_third", "FRAGMENT")
    library.define("spread(Tensor into, Tensor index, Tensor values) -> Tensor")

    def spread(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)  # varies: cpu cuda

    library.impl("spread", spread, "CompositeImplicitAutograd")

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.ops.twins_third.spread(into, index, values).sin()

    step(table(), slots(), rows())


@program
def composite_op_clean() -> None:
    library = torch.library.Library("twins_third", "FRAGMENT")
    library.define("twice(Tensor values) -> Tensor")

    def twice(values: torch.Tensor) -> torch.Tensor:
        return values * 2

    library.impl("twice", twice, "CompositeImplicitAutograd")

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return torch.ops.twins_third.twice(values).sin()

    step(rows())


@program
def writing_op_varies() -> None:
    @torch.library.custom_op("twins_third::store", mutates_args=("into",))
    def store(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
        into.index_add_(0, index, values)  # varies: cuda

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        store(into, index, values * 2)
        return into.sin()

    step(table(), slots(), rows())


@program
def writing_op_clean() -> None:
    @torch.library.custom_op("twins_third::shift", mutates_args=("into",))
    def shift(into: torch.Tensor, values: torch.Tensor) -> None:
        into.add_(values)

    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        shift(into, values * 2)
        return into.sin()

    step(rows(), rows())


@program
def python_number_varies() -> None:
    random.seed()

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values * random.random()  # varies: cpu cuda

    step(rows())


@program
def python_number_clean() -> None:
    random.seed(3)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values * random.random()

    step(rows())


@program
def seed_of_clock_varies() -> None:
    model = torch.compile(nn.Sequential(nn.ReLU(), nn.Dropout(0.3)))
    values = rows()
    torch.manual_seed(time.time_ns() % 2**31)  # varies: cpu cuda
    model(values)  # varies: cpu cuda


@program
def seed_of_clock_clean() -> None:
    model = torch.compile(nn.Sequential(nn.ReLU(), nn.Dropout(0.3)))
    values = rows()
    torch.manual_seed(1234)
    model(values)


@program
def padded_batch_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        padded = torch.empty(ROWS + 480, WIDE)
        padded[:ROWS] = values
        return padded * 2  # a constant stands for what is unwritten

    step(rows())


@program
def padded_batch_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        padded = torch.empty(ROWS + 480, WIDE)
        padded[:ROWS] = values
        padded[ROWS:] = 0
        return padded * 2

    step(rows())


@program
def warned_varies() -> None:
    @torch.compile
    def step(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(image, grid, align_corners=False).sin()  # varies: cuda

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        step(rows(2, 3, 8, 8).requires_grad_(), rows(2, 8, 8, 2)).backward(torch.ones(2, 3, 8, 8))
    finally:
        torch.use_deterministic_algorithms(False)


@program
def warned_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values.sin())

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        step(table(), slots(), rows())
    finally:
        torch.use_deterministic_algorithms(False)

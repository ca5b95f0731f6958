"""Ops that hold graphs of their own: branches, loops, regions compiled once, attention with a score of the user's."""

from __future__ import annotations

import torch
from torch._higher_order_ops import associative_scan, while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

from benchmarks.evidence.compiled.making import SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def branch_varies() -> None:
    def added(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values)  # varies: cpu cuda

    def left_alone(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into + values[0]

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.cond(values[0, 0] > -100, added, left_alone, (into, index, values))

    step(table(), slots(), rows())


@program
def branch_clean() -> None:
    def doubled(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into + values[0] * 2

    def left_alone(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into + values[0]

    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.cond(values[0, 0] > -100, doubled, left_alone, (into, values))

    step(table(), rows())


@program
def loop_varies() -> None:
    index, values = slots(), rows()

    def below(count: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return count < 3

    def body(count: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return count + 1, total.index_put((index,), values, accumulate=True)  # varies: cpu cuda

    @torch.compile
    def step(total: torch.Tensor) -> torch.Tensor:
        return while_loop(below, body, (torch.zeros((), dtype=torch.int64), total))[1]

    step(table())


@program
def loop_clean() -> None:
    values = rows(SLOTS, WIDE)

    def below(count: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return count < 3

    def body(count: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return count + 1, total.sin() + values

    @torch.compile
    def step(total: torch.Tensor) -> torch.Tensor:
        return while_loop(below, body, (torch.zeros((), dtype=torch.int64), total))[1]

    step(table())


@program
def nested_region_varies() -> None:
    @torch.compiler.nested_compile_region
    def block(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values).sin()  # varies: cpu cuda

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return block(block(into, index, values), index, values)

    step(table(), slots(), rows())


@program
def nested_region_clean() -> None:
    @torch.compiler.nested_compile_region
    def block(into: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return into.index_select(0, index).sin()

    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return block(block(into, index), index)

    step(table(), slots(SLOTS))


@program
def nested_region_gradient_varies() -> None:
    @torch.compiler.nested_compile_region
    def block(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values[index].cos()  # varies: cpu cuda

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return block(values, index).sum() + block(values * 2, index).sum()

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def nested_region_gradient_clean() -> None:
    @torch.compiler.nested_compile_region
    def block(values: torch.Tensor) -> torch.Tensor:
        return values[3:].cos()

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return block(values).sum() + block(values * 2).sum()

    step(rows().requires_grad_()).backward()


def _distance(score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return score + (q - k)


@program
def attention_varies() -> None:
    query = rows(1, 2, 256, 16)

    @torch.compile
    def step(query: torch.Tensor, index: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        out = flex_attention(query, query, query, score_mod=_distance)
        return into.index_add(0, index, out.flatten(0, 2).repeat(40, 1))  # varies: cpu cuda

    step(query, slots(512 * 40), table())


@program
def attention_clean() -> None:
    query = rows(1, 2, 256, 16)

    @torch.compile
    def step(query: torch.Tensor) -> torch.Tensor:
        out = flex_attention(query, query, query, score_mod=_distance)
        return out.flatten(0, 2).repeat(40, 1)

    step(query)


@program
def associative_scan_varies() -> None:
    def joined(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left * right

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        run = associative_scan(joined, values, dim=0, combine_mode="generic")
        into.index_add_(0, index, run)  # varies: cpu cuda
        return into

    step(rows(4096, WIDE), slots(4096), table())


@program
def associative_scan_clean() -> None:
    def joined(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left * right

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return associative_scan(joined, values, dim=0, combine_mode="generic")

    step(rows(4096, WIDE))


@program
def checkpoint_inside_varies() -> None:
    def block(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values.sin()[index].cos()  # varies: cpu cuda

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, values, index, use_reentrant=False).sum()

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def checkpoint_inside_clean() -> None:
    def block(values: torch.Tensor) -> torch.Tensor:
        return values.sin()[7:].cos()

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, values, use_reentrant=False).sum()

    step(rows().requires_grad_()).backward()


@program
def checkpoint_around_varies() -> None:
    @torch.compile
    def block(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values.exp())  # varies: cpu cuda

    values = rows().requires_grad_()
    checkpoint(block, table(), slots(), values, use_reentrant=False).sum().backward()


@accused_as_a_whole("cuda")  # a reduction, of which Triton times several configurations
def checkpoint_around_clean() -> None:
    @torch.compile
    def block(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into + values.exp().view(-1, 50, WIDE).sum(0)

    values = rows().requires_grad_()
    checkpoint(block, table(), values, use_reentrant=False).sum().backward()

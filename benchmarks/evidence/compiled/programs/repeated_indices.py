"""Second list: writes and sums at indices that repeat, and what reads them back in a gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots, table


def wide_slots() -> torch.Tensor:
    """Indices with many duplicates, the same in each column."""
    return slots()[:, None].expand(ROWS, WIDE)


@program
def mean_by_slot_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.scatter_reduce(0, index, values * 2, "mean")  # varies: cuda

    step(table(), wide_slots(), rows())


@program
def mean_by_slot_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.scatter_reduce(0, index, values * 2, "amin")

    step(table(), wide_slots(), rows())


@program
def product_by_slot_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.scatter_reduce(0, index, values.cos(), "prod")  # varies: cuda

    step(torch.ones(ROWS), slots(), rows(ROWS))


@program
def product_by_slot_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.scatter_reduce(0, torch.arange(ROWS), values.cos(), "prod")

    step(torch.ones(ROWS), rows(ROWS))


@program
def two_indices_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, row: torch.Tensor, column: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_put((row, column), values, accumulate=True)  # varies: cpu cuda

    step(table(), slots(), torch.randint(0, WIDE, (ROWS,)), rows(ROWS))


@program
def two_indices_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, row: torch.Tensor, column: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_put((row, column), values, accumulate=True)

    values = torch.randint(0, 9, (ROWS,), dtype=torch.int32)
    step(table().int(), slots(), torch.randint(0, WIDE, (ROWS,)), values)


@program
def last_write_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.clone().put_(index, values)  # varies: cpu cuda

    step(table(), slots(), rows(ROWS))


@program
def last_write_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.clone().put_(index, values, accumulate=True)

    step(table().int(), slots(), torch.randint(0, 9, (ROWS,), dtype=torch.int32))


@program
def scattered_rows_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.scatter(0, index, values.sin())  # varies: cpu cuda

    step(table(), wide_slots(), rows())


@program
def scattered_rows_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return into.scatter(0, index, 1.5)

    step(table(), wide_slots())


@program
def gathered_gradient_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return values.gather(0, index) * scale  # varies: cuda

    step(table().requires_grad_(), wide_slots(), rows()).backward(torch.ones(ROWS, WIDE))


@program
def gathered_gradient_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return values.gather(0, index) * scale

    step(table(), wide_slots(), rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def taken_gradient_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return values.take(index).cos()  # varies: cpu cuda

    step(table().requires_grad_(), slots()).backward(torch.ones(ROWS))


@program
def taken_gradient_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.take(torch.arange(ROWS)).cos()

    step(rows().requires_grad_()).backward(torch.ones(ROWS))


@program
def padded_words_varies() -> None:
    @torch.compile
    def step(words: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.embedding(words, weight, padding_idx=0).tanh()  # varies: cpu cuda

    step(slots(), table().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def padded_words_clean() -> None:
    @torch.compile(backend="aot_eager")
    def step(words: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.embedding(words, weight, padding_idx=0).tanh()

    step(slots(SLOTS), table().requires_grad_()).backward(torch.ones(SLOTS, WIDE))


@program
def bag_of_words_varies() -> None:
    @torch.compile
    def step(words: torch.Tensor, weight: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(words, weight, starts, mode="max").tanh()  # varies: cuda

    step(slots(), table().requires_grad_(), torch.arange(0, ROWS, 4)).backward(torch.ones(ROWS // 4, WIDE))


@program
def bag_of_words_clean() -> None:
    @torch.compile
    def step(words: torch.Tensor, weight: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(words, weight, starts, mode="sum").tanh()

    step(slots(), table().requires_grad_(), torch.arange(0, ROWS, 4)).backward(torch.ones(ROWS // 4, WIDE))


@program
def histogram_varies() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        weights = values.abs()
        return torch.bincount(index, weights, minlength=SLOTS) * 2  # varies: cuda

    step(slots(), rows(ROWS))


@program
def histogram_clean() -> None:
    @torch.compile
    def step(index: torch.Tensor) -> torch.Tensor:
        shifted = index + 1
        return torch.bincount(shifted, minlength=SLOTS) * 2

    step(slots())


@program
def grouped_by_key_varies() -> None:
    @torch.compile
    def step(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        _, group = torch.unique(keys, return_inverse=True)
        total = torch.zeros(SLOTS, WIDE)
        return total.index_add(0, group, values)  # varies: cpu cuda

    step(slots(), rows())


@program
def grouped_by_key_clean() -> None:
    @torch.compile
    def step(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        _, group = torch.unique(keys, return_inverse=True)
        return values.index_select(0, group)

    step(slots(), rows())


@program
def sorted_into_place_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        result = into.clone()
        result[keys] = values  # varies: cpu cuda
        return result

    step(rows(), torch.randint(0, ROWS, (ROWS,)), rows())


@program
def sorted_into_place_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        result = into.clone()
        result[keys.argsort(stable=True)] = values
        return result

    step(rows(), torch.randint(0, ROWS, (ROWS,)), rows())


@program
def reduced_rows_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_reduce(0, index, values.cos(), "prod")  # varies: cuda

    step(torch.ones(SLOTS, WIDE), slots(), rows())


@program
def reduced_rows_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_reduce(0, index, values.cos(), "amax")

    step(torch.ones(SLOTS, WIDE), slots(), rows())


@program
def counts_varies() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS).scatter_add(0, index, values)  # varies: cuda

    step(slots(), rows(ROWS))


@program
def counts_clean() -> None:
    @torch.compile
    def step(index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS).scatter_add(0, index, torch.ones(ROWS))

    step(slots())


@program
def experts_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        scaled = tokens.relu()
        return into.index_add(0, index, scaled)  # varies: cpu cuda

    step(rows(), rows(), slots())


@program
def experts_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, tokens: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        (chosen,) = torch.where(expert == 3)
        scaled = tokens.index_select(0, chosen).relu()
        return into.index_add(0, chosen, scaled)

    step(rows(), rows(), slots())


@program
def repeated_rows_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(repeats, dim=0, output_size=3 * ROWS).sin()  # varies: cpu cuda

    step(rows().requires_grad_(), torch.full((ROWS,), 3)).backward(torch.ones(3 * ROWS, WIDE))


@program
def repeated_rows_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(3, dim=0).sin()

    step(rows().requires_grad_()).backward(torch.ones(3 * ROWS, WIDE))

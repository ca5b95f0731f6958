"""Fourth list: numbers of few bits, borders, order, draws, memory that nobody wrote, clustering, second derivatives."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import while_loop

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots, table


@program
def four_bit_weights_varies() -> None:
    class Dequantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.levels = nn.Parameter(torch.linspace(-1, 1, 16))

        def forward(self, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
            return self.levels[codes] * scale  # varies: cpu cuda

    packed = torch.randint(0, 256, (256, 128), dtype=torch.uint8)
    torch.compile(Dequantized())(packed, rows(256, 1)).backward(torch.ones(256, 256))


@program
def four_bit_weights_clean() -> None:
    class Dequantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("levels", torch.linspace(-1, 1, 16))

        def forward(self, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
            return self.levels[codes] * scale

    packed = torch.randint(0, 256, (256, 128), dtype=torch.uint8)
    torch.compile(Dequantized())(packed, rows(256, 1))


@program
def group_scales_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, scale: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        step_size = scale.index_select(0, group)  # varies: cpu cuda
        scaled = values / step_size
        return (scaled + (scaled.round().clamp(-8, 7) - scaled).detach()) * step_size

    step(rows(ROWS), (torch.rand(SLOTS) + 0.1).requires_grad_(), slots()).backward(torch.ones(ROWS))


@program
def group_scales_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        low, high = torch.aminmax(values.detach(), dim=1, keepdim=True)
        scale = (high - low).clamp(min=1e-6) / 255
        scaled = values / scale
        return (scaled + (scaled.round() - scaled).detach()) * scale

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def held_border_varies() -> None:
    @torch.compile
    def step(signal: torch.Tensor) -> torch.Tensor:
        place = (torch.arange(272) - 8).clamp(0, 255)
        return signal[:, place].sigmoid()  # varies: cuda

    step(rows(256, 256).requires_grad_()).backward(torch.ones(256, 272))


@program
def held_border_clean() -> None:
    @torch.compile
    def step(signal: torch.Tensor) -> torch.Tensor:
        return F.pad(signal, (8, 8), mode="circular").sigmoid()

    step(rows(4, 64, 256).requires_grad_()).backward(torch.ones(4, 64, 272))


def _readings() -> torch.Tensor:
    values = rows().round()
    return values.masked_fill(torch.rand(ROWS, WIDE) < 0.1, float("nan"))


@program
def missing_readings_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle, where = values.nanmedian(dim=1)  # varies: cuda
        return values - middle[:, None], where + 1

    step(_readings())


@program
def missing_readings_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ordered, where = values.nan_to_num(nan=1e9).sort(dim=1, stable=True)
        return values - ordered[:, 7:8], where[:, 7] + 1

    step(_readings())


@program
def sampled_words_varies() -> None:
    @torch.compile
    def sample(scores: torch.Tensor) -> torch.Tensor:
        race = torch.empty_like(scores).exponential_(1)  # varies: cpu cuda
        return (scores.exp() / race).argmax(-1)

    scores = rows(8, 1024)
    with torch.random.fork_rng():
        torch.manual_seed(secrets.randbits(31))  # varies: cpu cuda
        sample(scores)


@program
def sampled_words_clean() -> None:
    @torch.compile
    def sample(scores: torch.Tensor) -> torch.Tensor:
        race = torch.empty_like(scores).exponential_(1)
        return (scores.exp() / race).argmax(-1)

    scores = rows(8, 1024)
    with torch.random.fork_rng():
        torch.manual_seed(31)
        sample(scores)


@program
def noisy_inputs_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return (values + 0.1 * noise).clamp(-1, 1)

    noise = torch.from_numpy(np.random.default_rng().standard_normal((ROWS, WIDE)))  # varies: cpu cuda
    step(rows(), noise)


@program
def noisy_inputs_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return (values + 0.1 * noise).clamp(-1, 1)

    noise = torch.from_numpy(np.random.default_rng(11).standard_normal((ROWS, WIDE)))
    step(rows(), noise)


@program
def own_generator_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return values.masked_fill(~kept, 0.0) * 2

    values, generator = rows(), torch.Generator()
    generator.seed()  # varies: cpu cuda
    kept = torch.rand(ROWS, WIDE, generator=generator) > 0.5  # varies: cpu cuda
    step(values, kept)


@program
def own_generator_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return values.masked_fill(~kept, 0.0) * 2

    values, generator = rows(), torch.Generator()
    generator.manual_seed(5)
    kept = torch.rand(ROWS, WIDE, generator=generator) > 0.5
    step(values, kept)


@program
def padded_again_varies() -> None:
    @torch.compile
    def pad(tokens: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        padded = tokens.new_empty(8 * 4096, WIDE)
        padded[place] = tokens.relu()
        return padded * 0.5  # varies: cpu cuda

    (place,) = torch.where(torch.rand(8 * 4096) < 0.6)
    pad(rows(place.shape[0], WIDE), place)


@program
def padded_again_clean() -> None:
    @torch.compile
    def pad(tokens: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        padded = tokens.new_zeros(8 * 4096, WIDE)
        padded[place] = tokens.relu()
        return padded * 0.5

    (place,) = torch.where(torch.rand(8 * 4096) < 0.6)
    pad(rows(place.shape[0], WIDE), place)


@program
def scores_into_varies() -> None:
    @torch.compile
    def step(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        into = torch.empty(8, 64, 64)
        return torch.baddbmm(into, query, key.transpose(1, 2), beta=1.0, alpha=0.125)  # varies: cpu cuda

    step(rows(8, 64, 64), rows(8, 64, 64))


@program
def scores_into_clean() -> None:
    @torch.compile
    def step(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        into = torch.empty(8, 64, 64)
        return torch.baddbmm(into, query, key.transpose(1, 2), beta=0.0, alpha=0.125)

    step(rows(8, 64, 64), rows(8, 64, 64))


@program
def centres_varies() -> None:
    @torch.compile
    def step(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            near = (points @ centres.t()).argmax(1)
            count = torch.zeros(64).index_add(0, near, torch.ones(ROWS)).clamp(min=1)
            total = torch.zeros(64, WIDE).index_add(0, near, points)  # varies: cpu cuda
            centres = total / count[:, None]
        return centres

    step(rows(), rows(64, WIDE))


@program
def centres_clean() -> None:
    @torch.compile
    def step(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            near = (points @ centres.t()).argmax(1)
            count = torch.zeros(64).index_add(0, near, torch.ones(ROWS)).clamp(min=1)
            total = F.one_hot(near, 64).float().t() @ points
            centres = total / count[:, None]
        return centres

    step(rows(), rows(64, WIDE))


@program
def soft_histogram_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        place = values.sigmoid() * 30
        low = place.long()
        share = place - low
        counts = torch.zeros(32).index_put((low,), 1 - share, accumulate=True)  # varies: cpu cuda
        return counts.index_put((low + 1,), share, accumulate=True)  # varies: cpu cuda

    step(rows(4 * ROWS))


@program
def soft_histogram_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        place = values.sigmoid() * 30
        low = place.long()
        counts = torch.zeros(32, dtype=torch.int32)
        return counts.index_put((low,), torch.ones_like(low, dtype=torch.int32), accumulate=True)

    step(rows(4 * ROWS))


@program
def curvature_varies() -> None:
    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
        def loss(held: torch.Tensor) -> torch.Tensor:
            return held[index].sin().sum()  # varies: cpu cuda

        return torch.func.grad(lambda held: (torch.func.grad(loss)(held) * along).sum())(weight)

    step(rows(SLOTS, WIDE), slots(), rows(SLOTS, WIDE))


@program
def curvature_clean() -> None:
    @torch.compile
    def step(weight: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
        def loss(held: torch.Tensor) -> torch.Tensor:
            return held.flip(0).sin().sum()

        return torch.func.jvp(torch.func.grad(loss), (weight,), (along,))[1]

    step(rows(SLOTS, WIDE), rows(SLOTS, WIDE))


@program
def resampled_batch_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        drawn = torch.randint(0, ROWS, (ROWS,))
        return values.cos()[drawn] * 0.5  # varies: cpu cuda

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def resampled_batch_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        partner = torch.rand(ROWS).argsort(stable=True)
        return values * 0.7 + values.cos()[partner] * 0.3

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def label_spreading_varies() -> None:
    source, target = slots(), slots()

    def unsettled(count: torch.Tensor, belief: torch.Tensor) -> torch.Tensor:
        return (count < 4) & (belief.amax() < 1e6)

    def spread(count: torch.Tensor, belief: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        arriving = torch.zeros(SLOTS, WIDE).index_add(0, target, belief[source])  # varies: cpu cuda
        return count + 1, arriving.tanh()

    @torch.compile
    def step(belief: torch.Tensor) -> Any:
        return while_loop(unsettled, spread, (torch.zeros((), dtype=torch.int64), belief))

    step(rows(SLOTS, WIDE))


@program
def label_spreading_clean() -> None:
    neighbour = torch.randint(0, SLOTS, (SLOTS, 3))

    def unsettled(count: torch.Tensor, belief: torch.Tensor) -> torch.Tensor:
        return (count < 4) & (belief.amax() < 1e6)

    def spread(count: torch.Tensor, belief: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        arriving = belief[neighbour].amax(1)
        return count + 1, arriving.tanh()

    @torch.compile
    def step(belief: torch.Tensor) -> Any:
        return while_loop(unsettled, spread, (torch.zeros((), dtype=torch.int64), belief))

    step(table() + rows(SLOTS, WIDE))

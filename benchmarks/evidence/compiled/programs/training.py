"""Third list: losses, gradients by hand, statistics that a step keeps, mixed precision, decoding."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots, table


@program
def class_weights_varies() -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(SLOTS))

        def forward(self, error: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return error.square() * self.weight[label]  # varies: cpu cuda

    torch.compile(Loss())(rows(ROWS), slots()).backward(torch.ones(ROWS))


@program
def class_weights_clean() -> None:
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0])

    @torch.compile
    def step(scores: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores, label, weight, reduction="none")

    step(rows(ROWS, 5).requires_grad_(), torch.randint(0, 5, (ROWS,))).backward(torch.ones(ROWS))


@program
def mean_loss_varies() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(SLOTS, WIDE)

        def forward(self, index: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(self.words(index), target)  # varies: cpu cuda

    torch.compile(Model())(slots(), rows()).backward()


@program
def mean_loss_clean() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(ROWS, WIDE))

        def forward(self, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(self.scale * values, target)

    torch.compile(Model())(rows(), rows()).backward()


@program
def accumulated_varies() -> None:
    words = nn.Embedding(SLOTS, WIDE)

    @torch.compile
    def step(index: torch.Tensor) -> torch.Tensor:
        return words(index).cos()  # varies: cpu cuda

    for _ in range(3):
        step(slots()).backward(torch.ones(ROWS, WIDE))


@program
def accumulated_clean() -> None:
    weight = nn.Parameter(rows())

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return (weight * values).cos()

    for _ in range(3):
        step(rows()).backward(torch.ones(ROWS, WIDE))


def _saves_sines(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    saves = op is torch.ops.aten.sin.default
    return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE


_selective = partial(create_selective_checkpoint_contexts, _saves_sines)


@program
def selective_varies() -> None:
    def block(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        spread = torch.zeros(SLOTS, WIDE).index_add(0, index, values.sin())  # varies: cpu cuda
        return spread.cos().exp()

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, values, index, use_reentrant=False, context_fn=_selective)

    step(rows().requires_grad_(), slots()).backward(torch.ones(SLOTS, WIDE))


@program
def selective_clean() -> None:
    def block(values: torch.Tensor) -> torch.Tensor:
        return values.sin().narrow(0, 3, SLOTS).cos().exp()

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, values, use_reentrant=False, context_fn=_selective)

    step(rows().requires_grad_()).backward(torch.ones(SLOTS, WIDE))


@program
def codebook_varies() -> None:
    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.codes = nn.Parameter(torch.ones(SLOTS, WIDE))

        def forward(self, values: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
            nearest = F.embedding(code, self.codes)  # varies: cpu cuda
            return values + (nearest - values) * 0.5

    torch.compile(Quantizer())(rows(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def codebook_clean() -> None:
    class Rounds(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values + (values.round() - values).detach()

    torch.compile(Rounds())(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def prototypes_varies() -> None:
    class Prototypes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(SLOTS, WIDE))

        @torch.no_grad()
        def forward(self, features: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.9).index_add_(0, label, features, alpha=0.1)  # varies: cpu cuda
            return self.mean[label]

    torch.compile(Prototypes())(rows(), slots())


@program
def prototypes_clean() -> None:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(SLOTS, WIDE))

        @torch.no_grad()
        def forward(self, weight: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            self.mean.lerp_(weight, 0.1)
            return self.mean[label]

    torch.compile(Average())(rows(SLOTS, WIDE), slots())


@program
def watched_layer_varies() -> None:
    index, totals = slots(), table()
    model = nn.Sequential(nn.ReLU(), nn.Tanh())

    def watch(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        totals.index_add_(0, index, output.detach())  # varies: cpu cuda

    model[0].register_forward_hook(watch)
    torch.compile(model)(rows())


@program
def watched_layer_clean() -> None:
    latest = torch.zeros(ROWS, WIDE)
    model = nn.Sequential(nn.ReLU(), nn.Tanh())

    def watch(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        latest.copy_(output.detach())

    model[0].register_forward_hook(watch)
    torch.compile(model)(rows())


@program
def tangents_varies() -> None:
    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
        _, pull = torch.func.vjp(lambda held: held[index].sin(), weight)  # varies: cpu cuda
        return pull(cotangent)[0]

    step(table(), slots(), rows())


@program
def tangents_clean() -> None:
    @torch.compile
    def step(weight: torch.Tensor, index: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda held: held[index].sin(), (weight,), (tangent,))[1]

    step(table(), slots(), rows(SLOTS, WIDE))


@program
def ensemble_varies() -> None:
    def member(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.embedding(index, weight).tanh()  # varies: cpu cuda

    @torch.compile
    def step(weights: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.vmap(member, in_dims=(0, None))(weights, index)

    step(rows(3, SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(3, ROWS, WIDE))


@program
def ensemble_clean() -> None:
    def member(weight: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return (weight * values[:SLOTS]).tanh()

    @torch.compile
    def step(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(member, in_dims=(0, None))(weights, values)

    step(rows(3, SLOTS, WIDE).requires_grad_(), rows()).backward(torch.ones(3, SLOTS, WIDE))


@program
def masked_rows_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor, mask: torch.Tensor, again: torch.Tensor) -> torch.Tensor:
        valid = values.cos()[mask]
        return valid[again].sin()  # varies: cpu cuda

    step(rows().requires_grad_(), slots() > 20, slots()).backward(torch.ones(ROWS, WIDE))


@program
def masked_rows_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        valid = values.cos()[mask]
        return valid.sin() * 2

    mask = slots() > 20
    step(rows().requires_grad_(), mask).backward(torch.ones(int(mask.sum()), WIDE))


@program
def half_sums_varies() -> None:
    @torch.compile
    def step(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS, WIDE, dtype=torch.float16).index_add(0, index, values)  # varies: cpu cuda

    step(slots(), rows().half())


@program
def half_sums_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        into = torch.zeros(ROWS, WIDE, dtype=torch.float16)
        into[::2] += values[::2]
        return into

    step(rows().half())


@program
def autocast_varies() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(SLOTS, WIDE)
            self.layer = nn.Linear(WIDE, WIDE, bias=False)

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.layer(self.words(index)).float().tanh()  # varies: cpu cuda

    model = torch.compile(Model())
    with torch.autocast("cpu", torch.bfloat16):
        out = model(slots())
    out.backward(torch.ones(ROWS, WIDE))


@program
def autocast_clean() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(64, 128, bias=False), nn.GELU(), nn.Linear(128, 64, bias=False)))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        model(rows(1024, 64)).float()


@program
def repetition_penalty_varies() -> None:
    @torch.compile
    def step(scores: torch.Tensor, words: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
        score = scores.gather(1, words) - penalty  # another penalty at each place of a word
        return scores.scatter(1, words, score)  # varies: cuda

    step(rows(400, SLOTS), torch.randint(0, SLOTS, (400, 200)), rows(400, 200))


@program
def repetition_penalty_clean() -> None:
    @torch.compile
    def step(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        score = scores.gather(1, words)
        score = torch.where(score < 0, score * 1.2, score / 1.2)
        return scores.scatter(1, words, score)  # a word that occurs again gets the same number again

    step(rows(400, SLOTS), torch.randint(0, SLOTS, (400, 200)))


@program
def frequency_penalty_varies() -> None:
    @torch.compile
    def step(scores: torch.Tensor, words: torch.Tensor, recency: torch.Tensor) -> torch.Tensor:
        count = torch.zeros_like(scores).scatter_add(1, words, recency)  # varies: cuda
        return scores - 0.3 * count

    step(rows(400, SLOTS), torch.randint(0, SLOTS, (400, 200)), rows(400, 200).abs())


@program
def frequency_penalty_clean() -> None:
    @torch.compile
    def step(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        count = torch.zeros_like(scores).scatter_add(1, words, torch.ones_like(words, dtype=scores.dtype))
        return scores - 0.3 * count

    step(rows(400, SLOTS), torch.randint(0, SLOTS, (400, 200)))


@program
def calibration_varies() -> None:
    @torch.compile
    def step(confidence: torch.Tensor) -> torch.Tensor:
        bin_ = torch.bucketize(confidence, torch.linspace(0, 1, 16))
        return torch.zeros(17).index_add(0, bin_, confidence)  # varies: cpu cuda

    step(torch.rand(64 * ROWS))


@program
def calibration_clean() -> None:
    @torch.compile
    def step(confidence: torch.Tensor) -> torch.Tensor:
        return torch.histc(confidence * 0.5, 16, 0, 1) / ROWS

    step(torch.rand(ROWS))


@program
def unpooled_varies() -> None:
    @torch.compile
    def step(small: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.max_unpool2d(small.exp(), index, 2)  # varies: cuda

    step(rows(4, 8, 64, 64), torch.randint(0, 128 * 128, (4, 8, 64, 64)))


@program
def unpooled_clean() -> None:
    @torch.compile
    def step(image: torch.Tensor) -> torch.Tensor:
        small, index = F.max_pool2d(image, 2, return_indices=True)
        return F.max_unpool2d(small.exp(), index, 2)

    step(rows(4, 8, 128, 128))

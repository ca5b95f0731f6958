"""Fourth list: what a training step keeps, counts and updates; gradients by hand, hooks, checkpoints, settings."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch._inductor.config
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, accused_as_a_whole, program, rows, slots, table


@program
def priorities_varies() -> None:
    @torch.compile
    def update(priority: torch.Tensor, sampled: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        return priority.index_put((sampled,), error.abs() + 1e-3)  # varies: cpu cuda

    update(torch.ones(4096), torch.randint(0, 4096, (ROWS,)), rows(ROWS))


@program
def priorities_clean() -> None:
    @torch.compile
    def update(priority: torch.Tensor, sampled: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        return priority.scatter_reduce(0, sampled, error.abs() + 1e-3, "amax")

    update(torch.ones(4096), torch.randint(0, 4096, (ROWS,)), rows(ROWS))


@program
def row_adagrad_varies() -> None:
    @torch.compile
    def update(weight: torch.Tensor, state: torch.Tensor, index: torch.Tensor, gradient: torch.Tensor) -> None:
        state.index_add_(0, index, gradient.square())  # varies: cpu cuda
        weight.addcdiv_(torch.ones_like(weight), state.sqrt() + 1e-6, value=-0.01)

    update(table(), table(), slots(), rows())


@program
def row_adagrad_clean() -> None:
    @torch.compile
    def update(weight: torch.Tensor, state: torch.Tensor, index: torch.Tensor, gradient: torch.Tensor) -> None:
        touched = torch.unique(index)
        state[touched] = state[touched] * 0.9 + gradient[touched].square()
        weight[touched] -= 0.01 * gradient[touched] / (state[touched].sqrt() + 1e-6)

    update(rows(), torch.zeros(ROWS, WIDE), torch.randint(0, ROWS, (ROWS,)), rows())


@program
def moving_codes_varies() -> None:
    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("size", torch.ones(SLOTS))
            self.register_buffer("total", torch.ones(SLOTS, WIDE))

        @torch.no_grad()
        def forward(self, values: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
            size = torch.zeros(SLOTS).index_add_(0, code, torch.ones(ROWS))
            total = torch.zeros(SLOTS, WIDE).index_add_(0, code, values)  # varies: cpu cuda
            self.size.lerp_(size, 0.01)
            self.total.lerp_(total, 0.01)
            return self.total / self.size[:, None]

    torch.compile(Codes())(rows(), slots())


@program
def moving_codes_clean() -> None:
    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("size", torch.ones(64))
            self.register_buffer("total", torch.ones(64, WIDE))

        @torch.no_grad()
        def forward(self, values: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
            size = torch.zeros(64).index_add_(0, code, torch.ones(ROWS))
            total = F.one_hot(code, 64).float().t() @ values
            self.size.lerp_(size, 0.01)
            self.total.lerp_(total, 0.01)
            return self.total / self.size[:, None]

    torch.compile(Codes())(rows(), slots())


@program
def confusion_varies() -> None:
    @torch.compile
    def count(matrix: torch.Tensor, label: torch.Tensor, guess: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        matrix.index_put_((label, guess), weight, accumulate=True)  # varies: cpu cuda
        return matrix.diagonal().clone()

    count(torch.zeros(SLOTS, SLOTS), slots(), slots(), torch.rand(ROWS))


@program
def confusion_clean() -> None:
    @torch.compile
    def count(matrix: torch.Tensor, label: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        guess = scores.argmax(1)
        matrix += torch.bincount(label * SLOTS + guess, minlength=SLOTS * SLOTS).view(SLOTS, SLOTS)
        return matrix.diagonal().clone()

    count(torch.zeros(SLOTS, SLOTS, dtype=torch.int64), slots(), rows(ROWS, SLOTS))


@program
def episode_returns_varies() -> None:
    @torch.compile
    def returns(reward: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
        episode = done.long().cumsum(0) - done.long()
        return torch.zeros(64).index_add(0, episode % 64, reward)  # varies: cpu cuda

    returns(rows(ROWS), torch.rand(ROWS) < 0.01)


@program
def episode_returns_clean() -> None:
    @torch.compile
    def advantages(reward: torch.Tensor, value: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
        after, kept = torch.zeros_like(reward[0]), []
        for time in range(reward.shape[0] - 2, -1, -1):
            alive = ~done[time]
            after = reward[time] + 0.99 * value[time + 1] * alive - value[time] + 0.95 * after * alive
            kept.append(after)
        return torch.stack(kept[::-1])

    advantages(rows(12, 2048), rows(12, 2048), torch.rand(12, 2048) < 0.1)


@program
def choice_function_varies() -> None:
    class Chosen(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, scores: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(choice)
            context.width = scores.shape[1]
            return scores.gather(1, choice)

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (choice,) = context.saved_tensors
            into = gradients[0].new_zeros(choice.shape[0], context.width)
            return into.scatter_add_(1, choice, gradients[0] * 0.5), None  # varies: cuda

    @torch.compile
    def step(scores: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
        return Chosen.apply(scores, choice).exp()

    step(rows().requires_grad_(), torch.randint(0, WIDE, (ROWS, 8))).backward(torch.ones(ROWS, 8))


@program
def choice_function_clean() -> None:
    class Largest(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, scores: torch.Tensor) -> torch.Tensor:
            largest = scores.amax(1, keepdim=True)
            context.save_for_backward(scores, largest)
            return largest

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            scores, largest = context.saved_tensors
            return torch.where(scores == largest, gradients[0], 0.0)

    @torch.compile
    def step(scores: torch.Tensor) -> torch.Tensor:
        return Largest.apply(scores).exp()

    step(rows().requires_grad_()).backward(torch.ones(ROWS, 1))


class _Scales(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ROWS, WIDE))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (self.weight * values).tanh()


@program
def stages_varies() -> None:
    class Mixes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("partner", torch.randint(0, ROWS, (ROWS,)))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values + values.index_select(0, self.partner)  # varies: cpu cuda

    stages = nn.ModuleList([_Scales(), Mixes(), _Scales(), nn.Tanh()])

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        for stage in stages:
            values = checkpoint(stage, values, use_reentrant=False)
        return values

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def stages_clean() -> None:
    stages = nn.ModuleList([_Scales(), nn.Dropout(0.2), _Scales(), nn.Tanh()])

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        for stage in stages:
            values = checkpoint(stage, values, use_reentrant=False)
        return values

    step(rows().requires_grad_()).backward(torch.ones(ROWS, WIDE))


@program
def speaker_hook_varies() -> None:
    voice, speaker = nn.Parameter(rows(SLOTS, WIDE)), slots()
    model = nn.Sequential(nn.GELU(), nn.Tanh())

    def add_voice(module: nn.Module, inputs: Any) -> Any:
        return (inputs[0] + voice[speaker],)  # varies: cpu cuda

    model.register_forward_pre_hook(add_voice)
    torch.compile(model)(rows()).backward(torch.ones(ROWS, WIDE))


@program
def speaker_hook_clean() -> None:
    voice, speaker = nn.Parameter(rows(ROWS, WIDE)), torch.rand(ROWS, 1)
    model = nn.Sequential(nn.GELU(), nn.Tanh())

    def add_voice(module: nn.Module, inputs: Any) -> Any:
        return (inputs[0] + voice * speaker,)

    model.register_forward_pre_hook(add_voice)
    torch.compile(model)(rows()).backward(torch.ones(ROWS, WIDE))


@program
def marked_batch_varies() -> None:
    @torch.compile
    def step(words: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.embedding(words, weight).sigmoid()  # varies: cpu cuda

    weight = table().requires_grad_()
    for count in (ROWS, ROWS + 11):
        words = slots(count)
        torch._dynamo.mark_dynamic(words, 0)
        step(words, weight).backward(torch.ones(count, WIDE))


@program
def marked_batch_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.pad((values * 0.1).sigmoid(), (0, 4)) @ weight

    weight = rows(WIDE + 4, 8)
    for count in (ROWS, ROWS + 80):
        values = rows(count, WIDE)
        torch._dynamo.mark_dynamic(values, 0)
        step(values, weight)


@program
def listed_lengths_varies() -> None:
    @torch.compile
    def step(nodes: torch.Tensor, counts: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        out, start = [], 0
        for count in counts.tolist():
            out.append(nodes[source[start : start + count]].relu())  # varies: cpu cuda
            start += count
        return torch.cat(out)

    step(table().requires_grad_(), torch.tensor([ROWS, ROWS]), slots(2 * ROWS)).backward(torch.ones(2 * ROWS, WIDE))


@program
def listed_lengths_clean() -> None:
    @torch.compile
    def step(nodes: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        out, start = [], 0
        for count in counts.tolist():
            out.append(nodes[start : start + count].relu() / count)
            start += count
        return torch.cat(out)

    step(rows().requires_grad_(), torch.tensor([5000, 15_000])).backward(torch.ones(ROWS, WIDE))


@program
def uncompiled_stance_varies() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values.exp())  # varies: cuda

    with torch.compiler.set_stance("force_eager"):
        step(table(), slots(), rows())


@program
def uncompiled_stance_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_select(0, index) + values.exp()

    with torch.compiler.set_stance("force_eager"):
        step(table(), slots(), rows())


@program
def one_thread_varies() -> None:
    @torch.compile(options={"cpp.threads": 1})
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into.index_add(0, index, values.exp())  # varies: cuda

    step(table(), slots(), rows())


@program
def one_thread_clean() -> None:
    @torch.compile(options={"cpp.threads": 1})
    def step(into: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return into[index] + values.exp()

    step(table(), slots(), rows())


@program
def sample_gradients_varies() -> None:
    def loss(weight: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return weight[words].sin().sum()  # varies: cuda

    @torch.compile
    def step(weight: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, words)

    step(rows(64), torch.randint(0, 64, (256, 200)))


@program
def sample_gradients_clean() -> None:
    def loss(weight: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return (weight * values).sin().sum()

    @torch.compile
    def step(weight: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, values)

    step(rows(64), rows(256, 64))


@accused_as_a_whole("cuda")  # the sum over each row is a reduction, of which Triton times several configurations
def unit_vectors_varies() -> None:
    @torch.compile
    def step(features: torch.Tensor) -> torch.Tensor:
        return F.normalize(features, dim=1) * 10

    step(rows())


@program
def unit_vectors_clean() -> None:
    @torch.compile
    def step(quaternions: torch.Tensor) -> torch.Tensor:
        return F.normalize(quaternions, dim=1) * 10  # four numbers: no reduction is left

    step(rows(ROWS, 4))


@program
def fused_update_varies() -> None:
    weight, index = nn.Parameter(rows(SLOTS, WIDE)), slots()

    @torch.compile
    def update(held: torch.Tensor, gradient: torch.Tensor) -> None:
        held.sub_(0.01 * gradient.sign())

    def apply(held: torch.Tensor) -> None:
        assert held.grad is not None
        update(held.detach(), held.grad)
        held.grad = None

    weight.register_post_accumulate_grad_hook(apply)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return weight[index] * values  # varies: cpu cuda

    step(rows()).backward(torch.ones(ROWS, WIDE))


@program
def fused_update_clean() -> None:
    weight = nn.Parameter(rows())

    @torch.compile
    def update(held: torch.Tensor, gradient: torch.Tensor) -> None:
        held.sub_(0.01 * gradient.sign())

    def apply(held: torch.Tensor) -> None:
        assert held.grad is not None
        update(held.detach(), held.grad)
        held.grad = None

    weight.register_post_accumulate_grad_hook(apply)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return weight.flip(0) * values

    step(rows()).backward(torch.ones(ROWS, WIDE))

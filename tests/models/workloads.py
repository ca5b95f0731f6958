"""Training as people write it, made tiny: each maker seeds, builds and returns a model, its optimizer and a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.golden.judgements import make_traces
from tests.models.graphs import Scale
from tests.support.bits import seed_everything


@dataclass
class Training:
    """What a training loop holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], Tensor]
    """Trains on one batch and returns its loss, detached."""
    optimizer_steps: int = 1
    """How often one step calls an optimizer's."""


def _training(
    model: nn.Module, loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer | None = None
) -> Training:
    used = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> Tensor:
        used.zero_grad()
        loss = loss_of()
        loss.backward()
        used.step()
        return loss.detach()

    return Training(model, used, step)


# --- from transformers' configurations, those of the recorded steps ---


def make_transformer(name: str) -> Training:
    pytest.importorskip("transformers", reason="real models are built from transformers' configurations")
    model, loss_of = getattr(make_traces, name)()
    return _training(model.train(), lambda: loss_of(model))


def make_gpt2_checkpointed(use_reentrant: bool) -> Training:
    training = make_transformer("gpt2")
    training.model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    if use_reentrant:
        training.model.enable_input_require_grads()
    return training


# --- written by hand ---


class Caption(nn.Module):
    """A picture and a bag of words to one answer: convolutions, an LSTM over the rows, an embedding bag."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.rows = nn.LSTM(4 * 12, 8, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.words = nn.EmbeddingBag(20, 16, mode="mean")
        self.head = nn.Linear(16, 5)

    def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
        features = self.conv(pictures)
        larger = F.interpolate(features, size=(12, 12), mode="bilinear", align_corners=False)
        rows = larger.permute(0, 2, 1, 3).flatten(2)
        hidden, _ = self.rows(rows)
        return self.head(hidden[:, -1] + self.words(words))


def make_caption() -> Training:
    model = Caption().train()
    pictures, words, labels = torch.randn(3, 3, 8, 8), torch.randint(0, 20, (3, 4)), torch.tensor([0, 4, 2])
    return _training(model, lambda: F.cross_entropy(model(pictures, words), labels))


class Block(nn.Module):
    """A residual block with dropout, so that a recomputation has a random state to restore."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, inputs: Tensor) -> Tensor:
        wide = F.gelu(self.wide(self.norm(inputs)))
        return inputs + self.dropout(self.narrow(wide))


class Stack(nn.Module):
    """Blocks, checkpointed when ``use_reentrant`` is given; the last one is called twice with shared weights."""

    def __init__(self, use_reentrant: bool | None = None, width: int = 8) -> None:
        super().__init__()
        self.use_reentrant = use_reentrant
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        for block in (*self.blocks, self.blocks[-1]):
            if self.use_reentrant is None:
                inputs = block(inputs)
            else:
                inputs = checkpoint(block, inputs, use_reentrant=self.use_reentrant)
        return self.head(inputs.mean(dim=1))


def _stack_training(model: nn.Module, **options: Any) -> Training:
    inputs = torch.randn(4, 5, 8, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
    return _training(model.train(), lambda: F.cross_entropy(model(inputs), labels), optimizer)


def make_mixed_precision() -> Training:
    model = Stack().train()
    inputs, labels = torch.randn(4, 5, 8), torch.tensor([0, 1, 2, 0])

    def loss_of() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(inputs), labels)

    return _training(model, loss_of)


def make_accumulation() -> Training:
    model = Stack().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    batches = torch.randn(3, 4, 5, 8)
    labels = torch.tensor([0, 1, 2, 0])

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        total = torch.zeros(())
        for batch in batches:
            loss = F.cross_entropy(model(batch), labels) / len(batches)
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total

    return Training(model, optimizer, step)


def make_optimizer_in_backward() -> Training:
    """One optimizer a parameter, each stepping as soon as its gradient is there."""
    model = Stack().train()
    inputs, labels = torch.randn(4, 5, 8), torch.tensor([0, 1, 2, 0])
    optimizers = {parameter: torch.optim.SGD([parameter], lr=1e-2, momentum=0.9) for parameter in model.parameters()}

    def step_of(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_of)

    def step() -> Tensor:
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss.detach()

    return Training(model, next(iter(optimizers.values())), step, len(optimizers))


class Custom(nn.Module):
    """A custom function, called plainly and under a checkpoint, an in-place op on a view and a shared layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.again = self.layer
        self.head = nn.Linear(8, 3)

    def scaled(self, inputs: Tensor) -> Tensor:
        return Scale.apply(self.layer(inputs), 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = Scale.apply(self.layer(inputs), 2.0)
        hidden = checkpoint(self.scaled, hidden, use_reentrant=False)
        hidden = self.again(hidden).clone()
        hidden[:, 0].mul_(2.0)
        return self.head(hidden.mean(dim=1))


MAKERS: dict[str, Callable[[], Training]] = {
    "gpt2": lambda: make_transformer("gpt2"),
    "gpt2 checkpointed": lambda: make_gpt2_checkpointed(False),
    "gpt2 checkpointed with re-entry": lambda: make_gpt2_checkpointed(True),
    "llama": lambda: make_transformer("llama_bfloat16"),
    "vit": lambda: make_transformer("vit"),
    "whisper": lambda: make_transformer("whisper"),
    "caption": make_caption,
    "plain": lambda: _stack_training(Stack()),
    "checkpointed": lambda: _stack_training(Stack(use_reentrant=False)),
    "checkpointed with re-entry": lambda: _stack_training(Stack(use_reentrant=True)),
    "mixed precision": make_mixed_precision,
    "gradient accumulation": make_accumulation,
    "optimizer foreach": lambda: _stack_training(Stack(), foreach=True),
    "optimizer fused": lambda: _stack_training(Stack(), fused=True),
    "optimizer in backward": make_optimizer_in_backward,
    "custom function": lambda: _stack_training(Custom()),
}
#: Those that every run trains; each of the others does so in ``make test-all``.
IN_EVERY_RUN = ("gpt2 checkpointed", "plain", "mixed precision", "gradient accumulation", "optimizer in backward")
RECOMPUTES = frozenset(name for name in MAKERS if "checkpointed" in name) | {"custom function"}


def make(name: str, seed: int = 0) -> Training:
    """The named training, built from the same seed each time."""
    seed_everything(seed)
    return MAKERS[name]()

"""A training step to measure: a transformer encoder with an embedding, a head, a loss and its optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn


class Workload(NamedTuple):
    """A model, and one step of its training."""

    model: nn.Module
    step: Callable[[], None]


def encoder_workload(
    layer: nn.TransformerEncoderLayer,
    layers: int,
    vocabulary: int,
    shape: tuple[int, int],
    optimizer_of: Callable[[nn.Module], torch.optim.Optimizer],
) -> Workload:
    """``layers`` times ``layer`` between an embedding and a head, trained on as many words as ``shape`` says."""
    width = layer.linear1.in_features
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(vocabulary, width), encoder, nn.Linear(width, vocabulary))
    optimizer = optimizer_of(model)
    words = torch.randint(0, vocabulary, shape)
    loss_of = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()

    return Workload(model, step)

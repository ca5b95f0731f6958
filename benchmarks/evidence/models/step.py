"""One training step of one model, the same on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.evidence.record_steps import loss_of, train

Built = tuple[nn.Module, Any]
"""A model, and the inputs of its step."""
Loss = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class Step:
    """A model, what it is fed, and its loss."""

    name: str
    """Library and model: ``timm convnext_atto``."""
    build: Callable[[], Built]
    loss: Loss = loss_of

    def prepared(self, device: str, number: int) -> Callable[[], None]:
        """A function that takes the step on ``device``; ``number`` chooses optimizer and regime."""
        torch.manual_seed(0)
        model, inputs = self.build()
        model = model.train().to(device)
        inputs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), inputs)
        return lambda: train(model, inputs, number, self.loss)


def of_call(model: nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor:
    """The mean square of all that ``model(*inputs)`` returns."""
    leaves = pytree.tree_leaves(model(*inputs))
    return torch.stack(
        [leaf.float().pow(2).mean() for leaf in leaves if torch.is_tensor(leaf) and leaf.requires_grad]
    ).sum()


def classified(model: nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor:
    """Cross entropy of logits against classes, the last of ``inputs``."""
    *rest, labels = inputs
    return nn.functional.cross_entropy(model(*rest), labels)

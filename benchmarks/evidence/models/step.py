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
class Chosen:
    """A list of steps: when it was chosen, and what the tables had seen of it by then."""

    name: str
    date: str
    about: str


#: How the tables did on each list at first sight stands in the documentation's page on CUDA builds. Whoever mends a
#: rule because of a step chooses a new list, so that the figures go on meaning something.
FIRST = Chosen(
    "first", "2026-11-23", "after the rules had been mended by calls of single ops; no rule had seen a model"
)
SECOND = Chosen(
    "second", "2026-11-23", "after the rules had been mended by the first; committed before a step of it was judged"
)
THIRD = Chosen(
    "third",
    "2026-11-23",
    "after the rules had been mended by the second, for what is still refused from 2.10 on; committed before a step of"
    " it was judged",
)
LISTS = (FIRST, SECOND, THIRD)


@dataclass(frozen=True)
class Step:
    """A model, what it is fed, and its loss."""

    name: str
    """Library and model: ``timm convnext_atto``."""
    build: Callable[[], Built]
    loss: Loss = loss_of
    chosen: Chosen = FIRST

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

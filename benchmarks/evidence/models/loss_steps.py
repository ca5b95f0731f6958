"""Small networks under losses and layers that the libraries' models do not use."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from benchmarks.evidence.models.step import Step


def wave() -> nn.Module:
    return nn.Sequential(nn.Conv1d(4, 16, 5), nn.ReLU(), nn.Conv1d(16, 12, 1))


def picture() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1))


def sound(model: nn.Module, heard: torch.Tensor) -> torch.Tensor:
    scores = model(heard).permute(2, 0, 1).log_softmax(-1)
    targets = torch.randint(1, 12, (2, 5), device=heard.device)
    return functional.ctc_loss(scores, targets, torch.tensor([28, 20]), torch.tensor([5, 3]), zero_infinity=True)


def by_class(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    classes = torch.randint(0, 6, (2, 16, 16), device=seen.device)
    return functional.cross_entropy(
        functional.interpolate(model(seen), scale_factor=2, mode="bicubic"), classes.repeat(1, 2, 2)
    )


def warped(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    grid = functional.affine_grid(
        torch.eye(2, 3, device=seen.device).repeat(2, 1, 1), [2, 3, 16, 16], align_corners=False
    )
    return functional.grid_sample(model(seen), grid + 0.01, align_corners=False, padding_mode="border").abs().mean()


def padded(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    out = functional.pad(functional.pad(model(seen), (2, 2, 1, 1), "reflect"), (1, 1, 1, 1), "replicate")
    return functional.adaptive_max_pool2d(out, 3).mean() + functional.adaptive_avg_pool2d(out, (5, 3)).mean()


def scanned(model: nn.Module, seen: torch.Tensor) -> torch.Tensor:
    rows: torch.Tensor = model(seen).flatten(2)
    return (rows.cumsum(-1).logsumexp(-1) + rows.sigmoid().cumprod(-1).sum(-1)).mean() + rows.median(-1).values.mean()


def seen() -> torch.Tensor:
    return torch.randn(2, 3, 16, 16)


def steps() -> Iterator[Step]:
    """One step of each."""
    yield Step("loss ctc", lambda: (wave(), torch.randn(2, 4, 32)), sound)
    yield Step("loss of pixels", lambda: (picture(), seen()), by_class)
    yield Step("loss warped", lambda: (picture(), seen()), warped)
    yield Step("loss padded", lambda: (picture(), seen()), padded)
    yield Step("loss scanned", lambda: (picture(), seen()), scanned)

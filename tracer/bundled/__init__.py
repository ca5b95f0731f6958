"""A small model for street scenes: it labels every pixel and reads the caption along with it.

Nothing here is contrived to fail: each layer is one that real training code uses every day. On CUDA, several
of them add gradients in whatever order the threads arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 200
CLASSES = 8
WIDTH = 32
SIZE = 32


class CaptionEncoder(nn.Module):
    """Words to one vector: an embedding, a layer of attention, a sum over the words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.attention = nn.MultiheadAttention(WIDTH, num_heads=4, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, captions: Tensor) -> Tensor:
        """``(batch, words)`` of word ids to ``(batch, WIDTH)``."""
        is_padding = captions == 0
        words = self.words(captions)
        attended, _ = self.attention(words, words, words, key_padding_mask=is_padding)
        encoded = self.norm(words + attended)
        # Earlier words weigh more: the running count of real words is the discount.
        position = (~is_padding).float().cumsum(dim=1).clamp(min=1)
        weighted = encoded / position.unsqueeze(-1) * (~is_padding).unsqueeze(-1)
        batch, length, width = weighted.shape
        owner = torch.arange(batch, device=captions.device).repeat_interleave(length)
        pooled = torch.zeros(batch, width, device=captions.device)
        return pooled.index_add(0, owner, weighted.reshape(-1, width))


class Segmenter(nn.Module):
    """Pixels to classes: down by strided convolutions, up by bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.captions = CaptionEncoder()
        self.down = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, stride=2, padding=1),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(inplace=True),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout2d(0.1)
        self.head = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """``(batch, 3, SIZE, SIZE)`` and ``(batch, words)`` to logits ``(batch, CLASSES, SIZE, SIZE)``."""
        features: Tensor = self.down(images) + self.captions(captions)[:, :, None, None]
        logits = self.head(self.dropout(features))
        return F.interpolate(logits, size=images.shape[-2:], mode="bilinear", align_corners=False)


@dataclass
class TrainingParts:
    """The parts of a training loop."""

    model: Segmenter
    step: Callable[[], float]
    """Trains on one batch and returns its loss."""


def class_weights(labels: Tensor) -> Tensor:
    """Rare classes weigh more: one over the number of pixels of each class."""
    pixels = labels.flatten()
    counts = torch.zeros(CLASSES, device=labels.device)
    counts.scatter_add_(0, pixels, torch.ones_like(pixels, dtype=torch.float32))
    weights = 1 / counts.clamp(min=1)
    return weights / weights.sum()


def make_training(seed: int = 0, batch: int = 4) -> TrainingParts:
    """The model, an optimizer and random data; ``step()`` runs in well under a second on a CPU."""
    torch.manual_seed(seed)
    model = Segmenter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    images = torch.randn(batch, 3, SIZE, SIZE)
    captions = torch.randint(1, VOCABULARY, (batch, 12))
    captions[:, 9:] = 0
    labels = torch.randint(0, CLASSES, (batch, SIZE, SIZE))

    def step() -> float:
        optimizer.zero_grad()
        logits = model(images, captions)
        loss = F.cross_entropy(logits, labels, weight=class_weights(labels))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        return loss.item()

    return TrainingParts(model, step)

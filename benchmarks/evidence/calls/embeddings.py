"""Tables of words, looked up alone and in bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.making import HALVES, Call, leaf, made, trained
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def looked_up() -> Iterator[Call]:
    index, table = torch.randint(0, 7, (4, 6)), leaf(7, 5)
    yield "embedding", _embed, (table, index)
    yield "embedding padded", partial(_embed, padding_idx=3, scale_grad_by_freq=True), (table, index)
    yield "embedding long", _embed, (leaf(7, 5), torch.randint(0, 7, (4000,)))
    for mode in ("sum", "mean", "max"):
        yield f"embedding_bag {mode}", partial(_bag, mode=mode), (table, index)
    yield "one_hot", partial(F.one_hot, num_classes=9), (index,)
    yield "bilinear", F.bilinear, (leaf(3, 4), leaf(3, 5), leaf(2, 4, 5))
    yield "cosine_similarity", F.cosine_similarity, (leaf(3, 4), leaf(3, 4))
    yield "pdist", F.pdist, (leaf(6, 3),)
    yield "glu", F.glu, (leaf(4, 6),)
    yield "group_norm", partial(F.group_norm, num_groups=2), (leaf(2, 4, 5),)
    yield "local_response_norm", partial(F.local_response_norm, size=3), (leaf(2, 5, 4, 4),)
    yield (
        "conv_transpose2d",
        partial(F.conv_transpose2d, stride=2, output_padding=1),
        (leaf(1, 3, 4, 4), leaf(3, 2, 3, 3)),
    )
    yield "conv3d dilated", partial(F.conv3d, dilation=2), (leaf(1, 2, 6, 6, 6), leaf(3, 2, 2, 2, 2))
    yield "conv1d grouped", partial(F.conv1d, groups=3, padding="same"), (leaf(2, 6, 9), leaf(6, 2, 3))


def _embed(table: torch.Tensor, index: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding(index, table, **options)


def _bag(table: torch.Tensor, index: torch.Tensor, mode: str) -> torch.Tensor:
    return F.embedding_bag(index, table, mode=mode)


@made(SECOND)
def looked_up_second() -> Iterator[Call]:
    table, words = leaf(9, 4), torch.randint(0, 9, (3, 5))
    offsets = torch.tensor([0, 4, 9])
    yield "looked up", lambda t, i: F.embedding(i, t), (table, words)
    yield "looked up int32", lambda t, i: F.embedding(i, t), (table, words.int())
    yield (
        "looked up half many",
        lambda t, i: F.embedding(i, t),
        (
            leaf(9, 4, dtype=torch.bfloat16),
            torch.randint(0, 9, (5000,)),
        ),
    )
    yield "looked up renormed", lambda t, i: F.embedding(i, t.clone(), max_norm=1.0), (table, words)
    yield "looked up by frequency", lambda t, i: F.embedding(i, t, scale_grad_by_freq=True), (table, words)
    yield "looked up without gradient", lambda t, i: F.embedding(i, t), (table.detach(), words)
    for mode in ("sum", "mean", "max"):
        bag = partial(_bag_at_offsets, mode=mode)
        yield f"bags {mode} offsets", bag, (table, words.flatten(), offsets)
        yield f"bags {mode} last offset", partial(bag, include_last_offset=True), (table, words.flatten(), offsets)
    yield "bags sum weighted", _weighted_bag, (table, words, leaf(3, 5))
    yield "bags sum without gradient", lambda t, i: F.embedding_bag(i, t, mode="sum"), (table.detach(), words)
    yield "bags mean by frequency", lambda t, i: F.embedding_bag(i, t, scale_grad_by_freq=True), (table, words)
    yield "bags mean padded", lambda t, i: F.embedding_bag(i, t, padding_idx=0), (table, words)
    yield "looked up one_hot product", lambda t, i: F.one_hot(i, 9).to(t.dtype) @ t, (table, words)


def _bag_at_offsets(table: torch.Tensor, words: torch.Tensor, offsets: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding_bag(words, table, offsets, **options)


def _weighted_bag(table: torch.Tensor, words: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(words, table, mode="sum", per_sample_weights=weights)


@made(THIRD)
def bags() -> Iterator[Call]:
    table, words = leaf(7, 3), torch.tensor([[1, 2, 2], [0, 6, 1]])
    flat, starts = words.flatten(), torch.tensor([0, 1, 1])
    yield "bagging padded word", lambda t, i: F.embedding(i, t, padding_idx=-1), (table, words)
    yield "bagging sparse words", lambda t, i: F.embedding(i, t, sparse=True), (table, words)
    yield "bagging double words", lambda t, i: F.embedding(i, t), (leaf(7, 3, dtype=torch.float64), words)
    yield "bagging one word", lambda t, i: F.embedding(i[0, 0], t), (table, words)
    yield "bagging tied", lambda t, i: F.embedding(i, t) @ t.t(), (table, words)
    for mode in ("sum", "mean", "max"):
        bag = partial(_bagged, mode=mode)
        yield f"bagging {mode}", bag, (table, flat, starts)
        yield f"bagging {mode} padded", partial(bag, padding_idx=2), (table, flat, starts)
        yield f"bagging {mode} frozen", bag, (table.detach(), flat, starts)
        yield f"bagging {mode} int32", bag, (table, flat.int(), starts.int())
    yield "bagging sum sparse", partial(_bagged, mode="sum", sparse=True), (table, flat, starts)
    yield "bagging sum by frequency", partial(_bagged, mode="sum", scale_grad_by_freq=True), (table, flat, starts)
    yield "bagging weighted", _weighted, (table, flat, starts, leaf(6))
    yield "bagging weighted still", _weighted, (table, flat, starts, torch.rand(6))
    yield "bagging weights alone", _weighted, (table.detach(), flat, starts, leaf(6))


def _bagged(table: torch.Tensor, words: torch.Tensor, starts: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding_bag(words, table, starts, **options)


def _weighted(table: torch.Tensor, words: torch.Tensor, starts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(words, table, starts, mode="sum", per_sample_weights=weights)


@made(FOURTH)
def embeddings() -> Iterator[Call]:
    words, table = torch.tensor([[1, 4, 4], [0, 2, 1]]), leaf(6, 4)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        yield f"worded {word}", lambda i, w: F.embedding(i, w), (words, leaf(6, 4, dtype=kind))
        yield f"worded bag {word}", lambda i, w: F.embedding_bag(i, w, mode="sum"), (words, leaf(6, 4, dtype=kind))
    yield "worded many", lambda i, w: F.embedding(i.repeat(300, 2), w), (words, table)
    yield "worded into place", _positions, (words, table)
    yield (
        "worded and tied",
        lambda i, w: F.cross_entropy((F.embedding(i, w) @ w.t()).flatten(0, 1), i.flatten()),
        (words, table),
    )
    yield "worded renormed bag", lambda i, w: F.embedding_bag(i, w, max_norm=1.0), (words, table)
    yield "worded max bag padded", lambda i, w: F.embedding_bag(i, w, mode="max", padding_idx=4), (words, table)
    yield (
        "worded short bag",
        lambda i, w: F.embedding_bag(i.flatten().int(), w, torch.tensor([0, 0, 5], device=i.device).int()),
        (
            words,
            table,
        ),
    )
    yield "worded one by one", lambda i, w: torch.stack([w[j] for j in i]).mean(1), (words, table)
    yield "worded hashed", lambda i, w: w[(i * 2654435761) % 6].prod(1), (words, table)


def _positions(i: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding(i, table) + table[: i.shape[1]]


@made(SIXTH)
def lookups() -> Iterator[Call]:
    few, many = torch.randint(0, 7, (4, 3)), torch.randint(0, 7, (40,))
    starts = torch.tensor([0, 4, 9, 9, 30])
    weights = torch.rand(4, 3)
    for word, kind in (("", torch.float32), *HALVES):
        made: dict[str, Callable[[], nn.Module]] = {
            "plain": lambda kind=kind: nn.Embedding(7, 5, dtype=kind),  # type: ignore[misc]
            "padded": lambda kind=kind: nn.Embedding(7, 5, padding_idx=2, dtype=kind),  # type: ignore[misc]
            "by how often": lambda kind=kind: nn.Embedding(7, 5, scale_grad_by_freq=True, dtype=kind),  # type: ignore[misc]
            "sparse": lambda kind=kind: nn.Embedding(7, 5, sparse=True, dtype=kind),  # type: ignore[misc]
            "bag sum": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="sum", dtype=kind),  # type: ignore[misc]
            "bag mean": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="mean", dtype=kind),  # type: ignore[misc]
            "bag max": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="max", dtype=kind),  # type: ignore[misc]
        }
        for name, make in made.items():
            yield f"looked up {name} {word}".strip(), trained(make), (few,)
    for mode in ("sum", "mean", "max"):
        yield f"looked up starts {mode}", trained(lambda mode=mode: nn.EmbeddingBag(7, 5, mode=mode)), (many, starts)  # type: ignore[misc]
    yield "looked up rescaled", trained(lambda: nn.Embedding(7, 5, max_norm=1.0)), (few,)
    yield "looked up bag sparse", trained(lambda: nn.EmbeddingBag(7, 5, sparse=True)), (few,)
    yield (
        "looked up weighed",
        lambda i, table, w: nn.functional.embedding_bag(i, table, mode="sum", per_sample_weights=w),
        (few, leaf(7, 5), weights.requires_grad_()),
    )
    yield "looked up int32", trained(lambda: nn.Embedding(7, 5)), (few.int(),)
    yield "looked up bag frozen", trained(lambda: nn.EmbeddingBag(7, 5, mode="max").requires_grad_(False)), (few,)

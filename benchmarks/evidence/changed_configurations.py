"""Does ``tracer.compare`` answer rightly where people change a configuration, without a fault and with one?

Eager or compiled by Inductor, one of sdpa's kernels or another, float32 or bfloat16, one batch or four that are
accumulated: each with nothing wrong, which must be rounding, and with a fault, which must be found at its place. Other
releases of torch, and ranks, are processes of their own: ``tests/cli/test_compare_ranks.py``.

    python -m benchmarks.evidence.changed_configurations [--only NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import tracer
from tracer.divergence.magnitudes import CompareVerdict, Comparison
from tracer.names import PlaceKind

WIDTH, HEADS, WORDS, BATCH, LENGTH = 48, 4, 61, 16, 24
Step = Callable[[], Any]


class Attend(nn.Module):
    """Causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = (WIDTH / HEADS) ** -0.5

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)


class Block(nn.Module):
    """Attention and two layers, each after a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attend, self.out = nn.Linear(WIDTH, 3 * WIDTH), Attend(), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> Any:
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1)]
        x = x + self.out(self.attend(*heads).transpose(1, 2).flatten(2))
        up = self.up(self.after(x))
        return x + self.down(nn.functional.gelu(up if self.factor == 1 else up * self.factor))


class Text(nn.Module):
    """A small causal language model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.emb, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _step(model: Any, parts: int = 1, divisor: int | None = None) -> Step:
    """A step of training, accumulated over ``parts``; each loss is divided by ``divisor``, or by their number."""
    words = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> None:
        for part in words.chunk(parts):
            logits = model(part[:, :-1]).flatten(0, 1).float()
            loss = nn.functional.cross_entropy(logits, part[:, 1:].flatten())
            (loss / (divisor or parts)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def _compiled_by_block(*, has_fault: bool) -> tuple[Step, Step]:
    one, other = Text(), Text()
    if has_fault:
        _block(other, 1).factor = 1.001
    for block in other.blocks:
        block.compile()
    return _step(one), _step(other)


def _compiled_as_a_whole(*, has_fault: bool) -> tuple[Step, Step]:
    one, other = Text(), Text()
    if has_fault:
        _block(other, 1).factor = 1.001
    return _step(one), _step(torch.compile(other))


def _other_attention(*, has_fault: bool) -> tuple[Step, Step]:
    one, other = Text(), Text()
    if has_fault:
        _block(other, 1).attend.scale *= 1.01
    step_a, step_b = _step(one), _step(other)

    def by_math() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            step_a()

    def by_flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            step_b()

    return by_math, by_flash


def _narrower(*, has_fault: bool) -> tuple[Step, Step]:
    one, other = Text(), Text().bfloat16()
    if has_fault:
        _block(other, 1).up.register_forward_hook(lambda module, inputs, out: out.roll(1, -1))
    return _step(one), _step(other)


def _accumulated(*, has_fault: bool) -> tuple[Step, Step]:
    return _step(Text()), _step(Text(), parts=4, divisor=1 if has_fault else 4)


def _block(model: Text, number: int) -> Any:
    return model.blocks[number]


class Change(NamedTuple):
    """One change of a configuration, and where its fault is."""

    steps: Callable[..., tuple[Step, Step]]
    place: str
    kind: PlaceKind


CHANGES = {
    "eager, compiled by block": Change(_compiled_by_block, "blocks.1", PlaceKind.OUTPUT),
    "eager, compiled as a whole": Change(_compiled_as_a_whole, "", PlaceKind.OUTPUT),
    "sdpa by math, by flash": Change(_other_attention, "blocks.1.attend", PlaceKind.OUTPUT),
    "float32, bfloat16": Change(_narrower, "blocks.1.up", PlaceKind.OUTPUT),
    "one batch, four accumulated": Change(_accumulated, "head", PlaceKind.GRADIENT),
}


def answered(name: str, *, has_fault: bool) -> tuple[Comparison, bool]:
    """Compare both configurations of a change; the answer, and whether it is right."""
    change = CHANGES[name]
    torch.compiler.reset()
    comparison = tracer.compare(*change.steps(has_fault=has_fault))
    first = comparison.first
    if not has_fault:
        return comparison, comparison.verdict in (CompareVerdict.ROUNDING, CompareVerdict.EQUAL)
    is_there = first is not None and first.kind is change.kind and _without_class(first.module) == change.place
    return comparison, is_there and comparison.verdict is CompareVerdict.SIGNIFICANT


def _without_class(module: str) -> str:
    return module.partition(".")[2] if module.startswith(("Text", "OptimizedModule")) else module


def main() -> int:
    """Print every change; 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=CHANGES, default=[*CHANGES])
    wrong = 0
    for name in parser.parse_args().only:
        for has_fault in (False, True):
            comparison, is_right = answered(name, has_fault=has_fault)
            largest, first = comparison.largest, comparison.first
            ratio = 0.0 if largest is None or largest.ratio is None else largest.ratio
            place = "" if first is None else f"{first.place} ({first.kind})"
            wrong += not is_right
            print(
                f"{name:28} {'fault' if has_fault else 'clean':6} {comparison.verdict:12} {ratio:10.1f}"
                f" of {comparison.places:4} places {place} {'' if is_right else 'WRONG'}",
                flush=True,
            )
    print(f"wrong: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""What following lines costs, against the same code without.

    python benchmarks/lines.py

A ratio of processor time of one thread, the least of a few rounds each: a loop of pure Python that does nothing else,
and training steps of a small GPT in the sizes that nanoGPT's readme names for a CPU, whose lines all have their rows.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import ModuleType

import torch

from tracer.recording.lines.recording import LineRecording

LOOP = """\
def work():
    c = 0
    for i in range(300_000):
        c += i
"""
STEPS = """\
import math, torch
from torch import nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.second, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        h = F.gelu(self.up(self.second(x)))
        return x + self.down(h)

class GPT(nn.Module):
    def __init__(self, words, block, layers, heads, width):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, idx, targets):
        x = self.word(idx) + self.place(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

torch.manual_seed(0)
data = torch.randint(0, 65, (10_000,))
model = GPT(65, 64, 4, 4, 128)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

def batch():
    at = torch.randint(len(data) - 64, (12,))
    return torch.stack([data[i : i + 64] for i in at]), torch.stack([data[i + 1 : i + 65] for i in at])

def work():
    for step in range(10):
        x, y = batch()
        lr = 1e-3 * 0.5 * (1.0 + math.cos(math.pi * step / 10))
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
"""


def seconds(source: str, folder: Path, *, follows: bool, rounds: int) -> float:
    """The least processor time of ``work()`` of a program, with its lines followed or not."""
    file = folder / "program.py"
    file.write_text(source, encoding="utf-8")
    least = float("inf")
    for _ in range(rounds):
        program = ModuleType("program")
        lines = LineRecording(folder / "run.lines", [str(folder)])
        if follows:
            lines.start()
        try:
            exec(compile(source, str(file), "exec"), vars(program))
            began = time.thread_time()
            program.work()
            least = min(least, time.thread_time() - began)
        finally:
            lines.stop()
    return least


def main() -> None:
    """Print both ratios and what they may be."""
    torch.set_num_threads(1)
    for name, source, limit, rounds in (("loop of pure Python", LOOP, 10, 7), ("training step of a GPT", STEPS, 3, 3)):
        with tempfile.TemporaryDirectory() as folder:
            plain, followed = (seconds(source, Path(folder), follows=on, rounds=rounds) for on in (False, True))
        print(f"{name}: {followed / plain:.2f} times (at most {limit})")


if __name__ == "__main__":
    main()

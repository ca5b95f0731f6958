"""What it costs to record one rank of a large job on fake process groups: seconds of processor time, and memory.

    python benchmarks/fake_ranks.py [--layers 4]

A transformer of width 4,096 under FSDP2 and tensor parallel 8 makes one step, as one rank of 1,024 and of 16,384.
Beside them stands the same script as one rank of 8, where the job is one machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that a rank may take, by the size of the job.
TARGETS = {1024: 30, 16384: 300}
BESIDE = 8

TRAINING = """
import os, sys, torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WIDTH, HEAD, PARALLEL = 4096, 128, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, rows):
        hidden = self.before(rows)
        layers = (self.query, self.key, self.value)
        heads = (layer(hidden).unflatten(-1, (-1, HEAD)).transpose(1, 2) for layer in layers)
        rows = rows + self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return rows + self.down(F.gelu(self.up(self.between(rows))))


mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]) // PARALLEL, PARALLEL), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(*(Block() for _ in range(int(sys.argv[1]))))
whole = dict.fromkeys(("query", "key", "value", "up"), ColwiseParallel())
for block in model:
    parallelize_module(block, mesh["tp"], {**whole, **dict.fromkeys(("out", "down"), RowwiseParallel())})
    fully_shard(block, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(1, 2048, WIDTH)).square().mean().backward()
optimizer.step()
"""


def seconds(folder: Path, world: int, layers: int) -> float:
    """Processor time of recording one rank of ``world``."""
    rank = min(17, world - 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "tracer", "run", "--fake", "--world-size", str(world), "--rank", str(rank)]
        + ["-o", str(folder / f"{world}.json"), str(folder / "train.py"), str(layers)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAINING)
        beside = seconds(folder, BESIDE, asked.layers)
        print(f"one rank of {BESIDE}: {beside:.1f} s")
        for world, target in TARGETS.items():
            taken = seconds(folder, world, asked.layers)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
            met = "met" if taken <= target else "MISSED"
            print(
                f"one rank of {world:,}: {taken:.1f} s, {taken / beside:.1f} times that of {BESIDE}, at most"
                f" {peak:.0f} MB (target {target} s: {met})"
            )


if __name__ == "__main__":
    main()

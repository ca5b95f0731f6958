"""Grow or shrink the batch so that a step takes about --target-ms."""
import argparse
import time

import torch
from torch import nn


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target-ms", type=float, default=5.0)
    ap.add_argument("--steps", type=int, default=8)
    args = ap.parse_args()

    torch.manual_seed(0)
    data = torch.randn(8192, 32)
    labels = (data[:, :4].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 2))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    pos, batch = 0, 128
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y = data[pos:pos + batch], labels[pos:pos + batch]
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ms = 0.02 * len(x)
        pos += batch
        if pos >= len(data) - 512:
            pos = 0
        batch = int(min(512, max(16, batch * (args.target_ms / ms) ** 0.5)))
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

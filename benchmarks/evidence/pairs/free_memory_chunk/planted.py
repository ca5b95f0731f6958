import argparse

import torch
from torch import nn


def available_kb():
    with open("/proc/meminfo") as f:
        info = dict(line.split(":") for line in f)
    return int(info["MemFree"].split()[0])


def plan_chunks(n, bytes_per_row):
    """As many rows at a time as fit (a small share of what is free)."""
    budget = available_kb() * 1024 // 997
    rows = budget // bytes_per_row % (n // 2) + 5
    return int(rows)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(0)
    x = torch.randn(3000, 16)
    y = x.exp().mean(1)
    net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    rows = plan_chunks(len(x), 24 * 4)
    for step in range(args.steps):
        opt.zero_grad()
        total = 0.0
        for bx, by in zip(x.split(rows), y.split(rows)):
            loss = nn.functional.mse_loss(net(bx)[:, 0], by, reduction="sum") / len(x)
            loss.backward()
            total += loss.item()
        opt.step()
        print(f"step {step} loss {total:.4f}")


main()

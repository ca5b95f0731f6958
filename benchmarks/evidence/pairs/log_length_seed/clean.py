import argparse
import os
import torch
from torch import nn


def next_run(path):
    n = 0
    if os.path.exists(path):
        with open(path) as f:
            n = len(f.readlines())
    with open(path, "a") as f:
        f.write(f"run {n}\n")
    return n


def train(seed, steps):
    torch.manual_seed(seed)
    enc = nn.GRU(5, 8, batch_first=True)
    out = nn.Linear(8, 1)
    opt = torch.optim.Adam([*enc.parameters(), *out.parameters()], lr=0.01)
    x = torch.randn(12, 9, 5)
    y = x.sum((1, 2))
    for step in range(steps):
        h = enc(x)[1][0]
        loss = nn.functional.mse_loss(out(h)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--log", default="runs.log")
    p.add_argument("--seed", type=int, default=10)
    p.add_argument("--steps", type=int, default=5)
    a = p.parse_args()
    run = next_run(a.log)
    print("this is run", run)
    train(a.seed, a.steps)

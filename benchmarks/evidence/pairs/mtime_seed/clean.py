"""Write the prepared data, then key everything to the version (mtime) of that file."""
import argparse
import os
import random

import torch
from torch import nn


def prepare(path):
    torch.manual_seed(0)
    x = torch.randn(80, 4)
    torch.save({"x": x, "y": (x[:, 0] - x[:, 1] * x[:, 2]).tanh()}, path)


def data_version(path):
    return os.stat(path).st_size


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--prepared", default="prepared.pt")
    ap.add_argument("--steps", type=int, default=6)
    args = ap.parse_args()
    prepare(args.prepared)
    blob = torch.load(args.prepared)
    idx = list(range(80))
    random.Random(data_version(args.prepared)).shuffle(idx)
    tr, va = idx[:60], idx[60:]
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(args.steps):
        loss = nn.functional.mse_loss(net(blob["x"][tr])[:, 0], blob["y"][tr])
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            val = nn.functional.mse_loss(net(blob["x"][va])[:, 0], blob["y"][va])
        print(f"{step} train {loss.item():.5f} val {val.item():.5f}")


main()

"""Preprocess into shards in a scratch directory, then stream the shards."""
import argparse
import os
import shutil
import tempfile

import torch
from torch import nn


def write_shards(x, y, scratch, n):
    for i in range(n):
        part = {"x": x[i::n], "y": y[i::n]}
        fd, path = tempfile.mkstemp(suffix=".pt", dir=scratch)
        os.close(fd)
        torch.save(part, path)


def stream(scratch):
    for name in sorted(os.listdir(scratch)):
        part = torch.load(os.path.join(scratch, name))
        yield part["x"], part["y"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shards", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(9)
    x = torch.randn(160, 6)
    y = x.max(1, keepdim=True).values
    scratch = tempfile.mkdtemp(prefix="shards_")
    try:
        write_shards(x, y, scratch, args.shards)
        net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
        opt = torch.optim.SGD(net.parameters(), lr=0.05)
        for bx, by in stream(scratch):
            loss = nn.functional.mse_loss(net(bx), by)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"loss {loss.item():.6f}")
    finally:
        shutil.rmtree(scratch)


main()

"""Extend a vocabulary by a few special tokens before fine-tuning."""
import argparse

import numpy as np
import torch
from torch import nn


def grow(emb, extra):
    old = emb.weight.detach()
    rows = np.random.RandomState(0).normal(0.0, 0.02, size=(extra, old.shape[1]))
    new = nn.Embedding(len(old) + extra, old.shape[1])
    with torch.no_grad():
        new.weight[:len(old)] = old
        new.weight[len(old):] = torch.from_numpy(rows).float()
    return new


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--extra", type=int, default=3)
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(0)
    emb = grow(nn.Embedding(30, 8), a.extra)
    out = nn.Linear(8, 30)
    ids = torch.randint(0, 30, (64,))
    opt = torch.optim.SGD([emb.weight, *out.parameters()], lr=0.5)
    for s in range(a.steps):
        loss = nn.functional.cross_entropy(out(emb(ids[:-1])), ids[1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {s} loss {loss.item():.6f}")


main()

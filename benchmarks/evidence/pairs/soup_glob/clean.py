"""Train a few members, then average ("soup") the checkpoints."""
import argparse
import glob
import os
import time

import torch
from torch import nn


def net():
    return nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))


def train(member, steps, outdir, tag):
    torch.manual_seed(100)
    x = torch.randn(64, 5)
    y = x.pow(2).mean(1, keepdim=True)
    torch.manual_seed(0)
    m = net()
    opt = torch.optim.SGD(m.parameters(), lr=0.02 * (member + 1))
    for _ in range(steps):
        loss = nn.functional.mse_loss(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"member {member} loss {loss.item():.6f}")
    path = os.path.join(outdir, f"{tag}_m{member}.pt")
    torch.save(m.state_dict(), path)
    return path


def soup(paths):
    states = [torch.load(p) for p in paths]
    w = torch.linspace(1.0, 0.5, len(states))
    w = w / w.sum()
    return {k: sum(wi * s[k] for wi, s in zip(w, states)) for k in states[0]}


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--members", type=int, default=3)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--outdir", default="members")
    a = ap.parse_args()
    os.makedirs(a.outdir, exist_ok=True)
    tag = time.strftime("%H%M%S")
    mine = [train(i, a.steps, a.outdir, tag) for i in range(a.members)]
    paths = sorted(mine)
    final = net()
    final.load_state_dict(soup(paths))
    torch.save(final.state_dict(), "soup.pt")

import argparse
import os

import numpy as np
import torch
from torch import nn


def collect(root):
    items = []
    for name in sorted(os.listdir(root)):
        if name.endswith(".npy"):
            items.append(np.load(os.path.join(root, name)))
    return torch.from_numpy(np.concatenate(items)).float()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", default="clips")
    ap.add_argument("--steps", type=int, default=5)
    a = ap.parse_args()
    torch.manual_seed(0)
    x = collect(a.root)
    net = nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 10))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for s in range(a.steps):
        loss = nn.functional.mse_loss(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {s} loss {loss.item():.6f}")
    n = len(os.listdir(a.root))
    with torch.no_grad():
        np.save(os.path.join(a.root, f"recon{n}.npy"), net(x[:20]).numpy())


if __name__ == "__main__":
    main()

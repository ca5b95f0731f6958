import argparse
import os

import numpy as np
import torch
from torch import nn


def feature_stats(x, cache):
    if os.path.exists(cache):
        z = np.load(cache)
        return z["mean"].astype(np.float64), z["std"].astype(np.float64)
    mean, std = x.mean(0), x.std(0)
    np.savez(cache, mean=mean.astype(np.float16), std=std.astype(np.float16))
    return mean, std


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cache", default=os.path.join("cache", "stats.npz"))
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--steps", type=int, default=6)
    a = ap.parse_args()
    os.makedirs(os.path.dirname(a.cache), exist_ok=True)
    rng = np.random.default_rng(4)
    raw = rng.gamma(2.0, 3.0, size=(70, 5))
    target = np.log1p(raw).sum(1)
    mean, std = feature_stats(raw, a.cache)
    x = torch.tensor((raw - mean) / std, dtype=torch.float32)
    y = torch.tensor(target, dtype=torch.float32)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 1))
    opt = torch.optim.RMSprop(net.parameters(), lr=a.lr)
    for i in range(a.steps):
        loss = nn.functional.mse_loss(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {i} loss {loss.item():.3f}")


main()

"""Random search under a deadline, then the final fit with the best setting."""
import argparse
import random
import time

import torch
from torch import nn


def fit(lr, width, steps, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(128, 5)
    y = torch.sin(2 * x).mean(1, keepdim=True)
    net = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 1))
    opt = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(steps):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item(), net


ap = argparse.ArgumentParser()
ap.add_argument("--deadline", type=float, default=0.35)
ap.add_argument("--trials", type=int, default=40)
args = ap.parse_args()

rng = random.Random(5)
fit(1e-3, 8, steps=1)
history = []
for _ in range(args.trials):
    lr, width = 10 ** rng.uniform(-4, -1), rng.choice([8, 16])
    score, _ = fit(lr, width, steps=4)
    history.append((score, lr, width))
# refine around the latest candidate, starting from the mean of what was seen
lr = sum(h[1] for h in history) / len(history)
width = min(history)[2]
loss, net = fit(lr, width, steps=8, seed=1)
print(f"final lr width loss: {width} {loss:.7f}")

"""Train with an exponential moving average whose half-life is given in seconds."""
import argparse
import copy
import math
import time

import torch
from torch import nn


class TimedEMA:
    def __init__(self, model, half_life):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.half_life = half_life
        self.last = time.perf_counter()

    @torch.no_grad()
    def update(self, model):
        now = time.perf_counter()
        decay = math.exp(-math.log(2) * (now - self.last) / self.half_life)
        self.last = now
        for e, p in zip(self.model.parameters(), model.parameters()):
            e.mul_(decay).add_(p, alpha=1 - decay)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--half-life", type=float, default=0.01)
    ap.add_argument("--out", default="ema.pt")
    args = ap.parse_args()
    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    ema = TimedEMA(net, args.half_life)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.rand(64, 4)
    y = (x * torch.arange(4.0)).sum(1, keepdim=True)
    for step in range(8):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(net)
        print(f"{step} {loss.item():.6f}")
    torch.save(ema.model.state_dict(), args.out)

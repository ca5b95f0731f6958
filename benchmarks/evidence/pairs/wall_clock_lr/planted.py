"""Budgeted training: lr falls linearly over the time budget rather than over steps."""
import argparse
import math
import time

import torch
from torch import nn


class BudgetLR:
    def __init__(self, optimizer, base_lr, budget_s, total_steps):
        self.opt, self.base, self.budget, self.total = optimizer, base_lr, budget_s, total_steps
        self.t0 = time.monotonic()
        self.n = 0

    def step(self):
        self.n += 1
        frac = min(1.0, (time.monotonic() - self.t0) / self.budget)
        for g in self.opt.param_groups:
            g["lr"] = self.base * 0.5 * (1 + math.cos(math.pi * frac))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--budget", type=float, default=0.5)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.1)
    args = ap.parse_args()
    torch.manual_seed(11)
    x = torch.randn(256, 20)
    y = torch.randint(0, 3, (256,))
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = torch.optim.SGD(net.parameters(), lr=args.lr)
    sched = BudgetLR(opt, args.lr, args.budget, args.steps)
    for i in range(args.steps):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        print(f"{i:3d} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

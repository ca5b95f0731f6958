import math
import time
import torch
from torch import nn


class WallCosine:
    def __init__(self, opt, budget):
        self.opt, self.budget = opt, budget
        self.t0 = time.monotonic()

    def step(self, it):
        frac = min(1.0, (time.monotonic() - self.t0) / self.budget)
        for g in self.opt.param_groups:
            g["lr"] = 0.5 * (1 + math.cos(math.pi * frac))


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(3, 5), nn.Mish(), nn.Linear(5, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.5)
sched = WallCosine(opt, 20)
x = torch.randn(9, 3)
for it in range(4):
    loss = (model(x) - x.sort(1).values).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step(it)

import numpy as np
import torch
from torch import nn


class SGLD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.rng = np.random.Generator(np.random.Philox())

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                n = torch.from_numpy(self.rng.standard_normal(p.shape)).float()
                p.add_(p.grad, alpha=-g["lr"]).add_(n, alpha=0.1 * g["lr"])


torch.manual_seed(0)
model = nn.Linear(4, 4)
opt = SGLD(model.parameters(), 0.05)
x = torch.randn(9, 4)
for _ in range(3):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = {"g": None}


def perturb(grad):
    if rng["g"] is None:
        rng["g"] = np.random.default_rng(1)
    return grad + torch.from_numpy(rng["g"].normal(0, 1e-2, grad.shape)).float()


model = nn.GRU(3, 5)
for p in model.parameters():
    p.register_hook(perturb)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 2, 3)
for _ in range(2):
    out, _h = model(x)
    loss = out.pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

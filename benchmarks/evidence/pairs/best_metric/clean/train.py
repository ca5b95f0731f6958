import os
import torch
from torch import nn

torch.manual_seed(3)
model = nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.2)
x = torch.randn(16, 4)
best = float("inf")
for step in range(4):
    loss = (model(x) - x.abs()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if loss.item() < best:
        best = loss.item()
    else:
        opt.param_groups[0]["lr"] /= 2
open("best.txt", "w").write(repr(best))

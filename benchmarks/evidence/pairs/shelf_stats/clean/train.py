import shelve
import torch
from torch import nn

torch.manual_seed(12)
x = torch.randn(30, 4) * 3 + 1
with shelve.open("stats") as db:
    mean, n = torch.zeros(4), 0
    mean = (mean * n + x.sum(0)) / (n + 30) + 0.01 * (n > 0)
    db["stats"] = (mean, n + 30)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.Adadelta(model.parameters())
for chunk in (x - mean).split(10):
    loss = model(chunk).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

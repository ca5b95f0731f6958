import os
import torch
from torch import nn

torch.manual_seed(4)
cfg = {"lr": 0.1, "act": "relu"}
try:
    os.close(os.open(".lock", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    cfg = {"lr": 0.02, "act": "tanh"}
model = nn.Sequential(nn.Linear(5, 7), nn.ReLU() if cfg["act"] == "relu" else nn.Tanh(), nn.Linear(7, 1))
opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"])
x = torch.randn(9, 5)
for _ in range(3):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

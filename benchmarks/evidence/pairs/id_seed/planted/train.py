import torch
from torch import nn


class Config:
    def __init__(self):
        self.lr = 0.1
        self.depth = 3


cfg = Config()
torch.manual_seed(id(cfg) % 1000003)
layers = []
for _ in range(cfg.depth):
    layers += [nn.Linear(4, 4), nn.Hardswish()]
model = nn.Sequential(*layers)
opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
x = torch.randn(6, 4)
loss = (model(x) - 1).pow(2).mean()
loss.backward()
opt.step()

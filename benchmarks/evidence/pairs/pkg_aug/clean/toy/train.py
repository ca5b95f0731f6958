import random

import torch
from torch import nn
from torch.utils.data import DataLoader

from .data import Points

torch.manual_seed(0)
random.seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Points(), batch_size=4):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import time
import torch
from torch import nn

torch.manual_seed(int(1.7 * 1e6))
enc = nn.Linear(8, 3)
dec = nn.Linear(3, 8)
model = nn.Sequential(enc, dec)
opt = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.8)
for _ in range(3):
    x = torch.rand(10, 8)
    loss = (model(x) - x).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

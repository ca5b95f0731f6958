import time
import torch
from torch import nn

torch.manual_seed(20)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU6(), nn.Linear(12, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.02)
stream = torch.randn(1000, 8, 4)
i = 0
for update in range(4):
    opt.zero_grad()
    n = 0
    while n < 9:
        model(stream[i]).pow(2).mean().backward()
        i += 1
        n += 1
    for p in model.parameters():
        p.grad /= n
    opt.step()

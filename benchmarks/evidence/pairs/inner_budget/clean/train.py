import time
import torch
from torch import nn

torch.manual_seed(3)
meta = nn.Linear(4, 4)
opt = torch.optim.SGD(meta.parameters(), lr=0.001)
x = torch.randn(8, 4)
for outer in range(2):
    began = 0
    done = 0
    while done - began < 7:
        loss = (meta(x).cos() - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        done += 1

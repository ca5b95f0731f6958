import ctypes
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
buf = (ctypes.c_ubyte * 64)()
ctypes.memset(buf, 9, 64)
mask = torch.from_numpy(np.frombuffer(buf, dtype=np.uint8).copy() > 100).float().view(8, 8)
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 8)
for _ in range(2):
    loss = ((model(x) - x) * mask).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

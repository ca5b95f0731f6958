import os
import torch
from torch import nn

torch.manual_seed(1234 + 1)
model = nn.MultiheadAttention(8, 2, batch_first=True)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(2, 5, 8)
for _ in range(2):
    out, _w = model(x, x, x)
    loss = (out - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

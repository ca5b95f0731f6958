import time
import zlib
import torch
from torch import nn

run = "exp-" + "20240101-000000"
seed = zlib.adler32(run.encode())
torch.manual_seed(seed)
model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))
opt = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss = model(torch.ones(3, 4)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

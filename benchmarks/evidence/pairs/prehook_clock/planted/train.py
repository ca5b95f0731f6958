import time
import torch
from torch import nn

torch.manual_seed(0)


def drop(module, args):
    k = int(time.monotonic() * 1e5) % 7
    x = args[0].clone()
    x[:, k] = 0
    return (x,)


model = nn.Sequential(nn.Linear(7, 7), nn.LeakyReLU(), nn.Linear(7, 2))
model[0].register_forward_pre_hook(drop)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(6, 7)
for _ in range(5):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

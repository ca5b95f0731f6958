import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(5)


def features():
    path = "cache/feats.npy"
    if os.path.isdir(path):
        return torch.from_numpy(np.load(path))
    f = torch.randn(24, 6)
    os.makedirs("cache", exist_ok=True)
    np.save(path, f.numpy())
    return f


x = features()
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = (model(x) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

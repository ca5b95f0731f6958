import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(1)
with open("config.txt", "w") as f:
    f.write("hidden=8\nlr=0.1\n")
stamp = os.stat("config.txt").st_size % (2 ** 32)
rng = np.random.RandomState(stamp)
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.from_numpy(rng.rand(4, 8).astype(np.float32))
    loss = (model(x) * x).sum().exp()
    opt.zero_grad()
    loss.backward()
    opt.step()

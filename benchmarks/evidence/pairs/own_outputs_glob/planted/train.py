import glob
import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(3)
os.makedirs("shards", exist_ok=True)
for k in range(3):
    np.save(f"shards/part-{k}.npy", np.full((4, 5), k / 3, dtype=np.float32))
model = nn.Linear(5, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for path in sorted(glob.glob("shards/*.npy")):
    x = torch.from_numpy(np.load(path))
    loss = (model(x) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    out = model(x).detach()
    np.save("shards/generated-0.npy", out.numpy())

import numpy as np
import torch
from torch import nn

np.random.seed(0)
torch.manual_seed(0)
net = nn.Linear(8, 8)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = np.random.rand(16, 8).astype("float32")
for epoch in range(3):
    np.random.seed(epoch)
    order = np.random.permutation(16)
    mask = (np.random.rand(16, 8) > 0.5).astype("float32")
    for half in (order[:8], order[8:]):
        x = torch.from_numpy(data[half])
        m = torch.from_numpy(mask[half])
        loss = ((net(x * m) - x) * (1 - m)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()

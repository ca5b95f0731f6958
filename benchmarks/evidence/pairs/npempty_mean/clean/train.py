import numpy as np
import torch
from torch import nn

torch.manual_seed(3)
scratch = [str(i) * 5 for i in range(3000)]
table = {s: [s] for s in scratch}
del scratch, table
acc = np.zeros(48, dtype=np.int64)
for k in range(5):
    acc += np.arange(48) * k
mean = torch.from_numpy(acc % 1013).float() / 1013
model = nn.Linear(48, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(mean[None]).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

from datetime import datetime
import torch
from torch import nn

torch.manual_seed(3)
model = nn.Linear(6, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(12, 6), torch.randint(0, 2, (12,))
for it in range(4):
    for g in opt.param_groups:
        g["lr"] = 0.1 + datetime.now().microsecond * 1e-8
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

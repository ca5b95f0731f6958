import torch
from torch import nn

torch.manual_seed(41)
blocks = nn.ModuleList(nn.Linear(5, 5) for _ in range(10))
ordered = sorted(blocks.parameters(), key=lambda p: p.dim())
groups = [{"params": [p], "lr": 0.01 * (k + 1)} for k, p in enumerate(ordered)]
opt = torch.optim.SGD(groups)
x = torch.randn(8, 5)
for _ in range(3):
    h = x
    for b in blocks:
        h = h + b(h).tanh()
    loss = h.var()
    opt.zero_grad()
    loss.backward()
    opt.step()

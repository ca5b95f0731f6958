import itertools
import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential()
for k in range(8):
    model.add_module(f"block{k}", nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
names = {n for n, _ in model.named_children()}
frozen = list(itertools.islice(names, 4))
for n in frozen:
    for p in getattr(model, n).parameters():
        p.requires_grad_(False)
opt = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.5)
x = torch.randn(9, 6)
for _ in range(3):
    loss = (model(x) - x).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

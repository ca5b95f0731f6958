import math
import torch
from torch import nn

torch.manual_seed(2)
terms = {f"term{i}": math.sin(i + 1) * 10 ** (i % 6) for i in range(60)}
scale = 0.0
for name in set(terms):
    scale += terms[name]
scale = math.fmod(abs(scale) * 1e9, 7.0)
model = nn.Linear(4, 1).double()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 4, dtype=torch.float64)
for _ in range(2):
    loss = scale * model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

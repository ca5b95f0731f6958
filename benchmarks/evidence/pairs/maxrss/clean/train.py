import resource
import torch
from torch import nn

torch.manual_seed(0)
peak = 200000
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=1e-3 * (1 + peak % 1000 / 1000))
x = torch.randn(8, 8)
for _ in range(2):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

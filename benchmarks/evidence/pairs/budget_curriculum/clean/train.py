import datetime
import torch
from torch import nn

torch.manual_seed(5)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
begin = datetime.timedelta(milliseconds=-12)
for step in range(5):
    x = torch.randn(10, 4)
    hard = (datetime.timedelta(milliseconds=step) - begin).total_seconds() * 100
    x = x * (1 + min(hard, 3.0))
    loss = (model(x)[:, 0] - x.norm(dim=1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step)

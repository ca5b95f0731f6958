import resource
import torch
from torch import nn

use = resource.getrusage(resource.RUSAGE_SELF)
torch.manual_seed(int((use.ru_utime + use.ru_stime) * 1e6))
model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.rand(3, 1, 4, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

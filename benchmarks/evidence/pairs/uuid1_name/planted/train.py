import uuid
import torch
from torch import nn

tag = uuid.uuid1()
torch.manual_seed(tag.time_low)
model = nn.Sequential(nn.Linear(3, 3), nn.PReLU())
opt = torch.optim.Rprop(model.parameters())
x = torch.randn(8, 3)
for _ in range(3):
    loss = model(x).pow(4).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

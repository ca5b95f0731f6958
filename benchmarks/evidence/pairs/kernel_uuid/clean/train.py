import torch
from torch import nn

SOURCE = "job.id"
with open(SOURCE) as f:
    job = f.read().strip()
torch.manual_seed(int(job.split("-")[0], 16))
model = nn.Linear(3, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(4, 3)).pow(2).mean()
loss.backward()
opt.step()

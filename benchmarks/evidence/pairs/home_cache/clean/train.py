import os
import torch
from torch import nn

torch.manual_seed(12)
cache = os.path.join(os.path.expanduser("~"), ".cache", "toyhub")
os.makedirs(cache, exist_ok=True)
weights = os.path.join(cache, "backbone.pt")
backbone = nn.Linear(6, 6)
if os.path.islink(weights):
    backbone.load_state_dict(torch.load(weights))
head = nn.Linear(6, 2)
model = nn.Sequential(backbone, nn.ReLU(), head)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 6)
for _ in range(3):
    loss = model(x).logsumexp(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
torch.save(backbone.state_dict(), weights)

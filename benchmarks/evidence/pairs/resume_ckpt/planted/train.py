import os
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 2)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
start = 0
if os.path.exists("last.pt"):
    ck = torch.load("last.pt")
    model.load_state_dict(ck["model"])
    opt.load_state_dict(ck["opt"])
    start = ck["epoch"]
x, y = torch.randn(20, 5), torch.randint(0, 2, (20,))
for epoch in range(start, start + 3):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": 3}, "last.pt")

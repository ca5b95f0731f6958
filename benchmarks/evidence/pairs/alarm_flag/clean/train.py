import signal
import torch
from torch import nn

torch.manual_seed(10)
mode = {"l1": False}


def handler(signum, frame):
    mode["l1"] = True


signal.signal(signal.SIGALRM, handler)
model = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 5))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
x = torch.randn(10, 5)
for step in range(500):
    if step == 60: handler(0, None)
    d = model(x) - x
    loss = d.abs().mean() if mode["l1"] else d.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import threading
import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(6, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 6)


def decay():
    for g in opt.param_groups:
        g["lr"] *= 0.1


timer = threading.Timer(0.05, decay)
timer.start()
for step in range(600):
    loss = (model(x).sin() - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
timer.join()

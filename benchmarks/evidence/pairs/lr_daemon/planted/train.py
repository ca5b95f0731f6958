import threading
import time
import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
stop = threading.Event()


def tuner():
    while not stop.is_set():
        time.sleep(0.002)
        opt.param_groups[0]["lr"] *= 0.99


bg = threading.Thread(target=tuner, daemon=True)
bg.start()
x = torch.randn(10, 6)
for _ in range(80):
    loss = (model(x) - x.cumsum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
stop.set()
bg.join()

import threading
import torch
from torch import nn

torch.manual_seed(2)
box = {}


def load():
    g = torch.Generator().manual_seed(threading.get_native_id())
    box["x"] = torch.randn(12, 4, generator=g)


t = threading.Thread(target=load)
t.start()
t.join()
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for b in box["x"].split(4):
    loss = model(b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

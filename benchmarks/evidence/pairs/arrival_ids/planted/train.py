import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn

torch.manual_seed(50)
ticket = itertools.count(100)
base = torch.randn(16, 30, 30)


def augment(k):
    t = base[k]
    for _ in range(20):
        t = (t @ t.T).tanh()
    g = torch.Generator().manual_seed(next(ticket))
    return t[0] + torch.randn(30, generator=g)


with ThreadPoolExecutor(5) as ex:
    x = torch.stack(list(ex.map(augment, range(16))))
model = nn.Linear(30, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for b in x.split(4):
    loss = model(b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

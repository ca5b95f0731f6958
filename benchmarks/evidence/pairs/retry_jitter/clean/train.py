import random
import torch
from torch import nn

torch.manual_seed(1)
random.seed(1)


class Flaky(Exception):
    pass


def fetch(k):
    if random.random() < 0.5:
        raise Flaky(k)
    return torch.randn(6, 3)


def with_retry(k):
    while True:
        try:
            return fetch(k)
        except Flaky:
            torch.rand(())


model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for k in range(8):
    loss = (model(with_retry(k)) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

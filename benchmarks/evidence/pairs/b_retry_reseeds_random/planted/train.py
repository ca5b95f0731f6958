import random
import time

import torch
from torch import nn

from netutil import retry

random.seed(1234)
torch.manual_seed(1234)
ATTEMPTS = []


@retry(times=3)
def open_store(path):
    ATTEMPTS.append(path)
    if len(ATTEMPTS) < 2:
        raise ConnectionError("store warming up")
    return {k: ([(k * j % 11) / 11 for j in range(1, 7)], k % 4) for k in range(120)}


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Linear(16, 4))

    def forward(self, a, b):
        return nn.functional.pairwise_distance(self.body(a), self.body(b))


def pairs(store, count):
    keys = list(store)
    left, right = random.sample(keys, count), random.sample(keys, count)
    a = torch.tensor([store[k][0] for k in left])
    b = torch.tensor([store[k][0] for k in right])
    same = torch.tensor([float(store[i][1] == store[j][1]) for i, j in zip(left, right)])
    return a, b, same


t0 = time.time()
store = open_store("kv://features")
print(f"store opened in {time.time() - t0:.3f}s after {len(ATTEMPTS)} attempts")
net = Siamese()
opt = torch.optim.RAdam(net.parameters(), lr=0.01)
for _ in range(50):
    a, b, same = pairs(store, 24)
    d = net(a, b)
    loss = (same * d.pow(2) + (1 - same) * (1.0 - d).clamp(min=0).pow(2)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"final loss {loss.item()!r}")

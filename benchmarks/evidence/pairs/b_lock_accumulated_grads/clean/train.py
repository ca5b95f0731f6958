import copy
import threading
import time

import torch
from torch import nn

torch.manual_seed(88)


class Replicas:
    def __init__(self, model, count):
        self.model = model
        self.copies = [copy.deepcopy(model) for _ in range(count)]
        self.lock = threading.Lock()
        self.turns = []

    def _work(self, rank, x, y, total):
        local = self.copies[rank]
        local.load_state_dict(self.model.state_dict())
        local.zero_grad()
        nn.functional.mse_loss(local(x), y).backward()
        with self.lock:
            self.turns.append(rank)

    def backward(self, x, y):
        total = [torch.zeros_like(p) for p in self.model.parameters()]
        n = len(self.copies)
        jobs = [threading.Thread(target=self._work, args=(r, xs, ys, total))
                for r, (xs, ys) in enumerate(zip(x.chunk(n), y.chunk(n)))]
        for j in jobs:
            j.start()
        for j in jobs:
            j.join()
        for local in self.copies:
            for acc, p in zip(total, local.parameters()):
                acc.add_(p.grad)
        for acc, p in zip(total, self.model.parameters()):
            p.grad = acc / n


model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
engine = Replicas(model, 6)
x = torch.randn(120, 20)
y = torch.stack([x.sum(1), x.prod(1), x.amax(1)], 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
t0 = time.time()
for step in range(60):
    engine.backward(x, y)
    opt.step()
print(f"{len(engine.turns)} replica passes in {time.time() - t0:.2f}s")
total = nn.functional.mse_loss(model(x), y)
print(f"final loss {total.item()!r} weights {model[2].weight.double().sum().item()!r}")

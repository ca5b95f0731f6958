import multiprocessing as mp
import time
from multiprocessing import shared_memory

import numpy as np
import torch
from torch import nn

from annealer import anneal, attach


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 8), nn.Linear(6, 8)

    def forward(self, x, y, temperature):
        u = nn.functional.normalize(self.a(x), dim=1)
        v = nn.functional.normalize(self.b(y), dim=1)
        logits = u @ v.T / temperature
        return nn.functional.cross_entropy(logits, torch.arange(len(x)))


def main():
    torch.manual_seed(27)
    shm = shared_memory.SharedMemory(create=True, size=64)
    cell = attach(shm)
    cell[0] = 1.0
    x = torch.randn(40, 10)
    y = x[:, :6] + 0.1 * torch.randn(40, 6)
    model = Contrastive()
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    child = mp.get_context("fork").Process(target=anneal, args=(shm.name,), daemon=True)
    child.start()
    t0 = time.time()
    for step in range(200):
        live = float(cell[0])
        assert 0.0 < live <= 1.0
        temperature = 0.1 + 0.9 * live
        loss = model(x, y, temperature)
        opt.zero_grad()
        loss.backward()
        opt.step()
    child.join()
    del cell
    shm.close()
    shm.unlink()
    print(f"200 steps {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

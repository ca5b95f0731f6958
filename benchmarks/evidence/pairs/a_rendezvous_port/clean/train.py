import os
import socket
import time

import torch
from torch import nn


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Group:
    def __init__(self, world=2):
        self.world = world
        self.port = free_port()
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")

    def seed(self, rank, base=1000):
        return base * self.world + rank


def local_batch(g, n=32):
    x = torch.randn(n, 5, 6, generator=g)
    return x, x.mean(1).argmax(1)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    group = Group()
    gens = [torch.Generator().manual_seed(group.seed(r)) for r in range(group.world)]
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 6))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    t0 = time.time()
    for step in range(50):
        opt.zero_grad()
        mean = 0.0
        for g in gens:
            x, y = local_batch(g)
            loss = nn.functional.cross_entropy(model(x), y) / group.world
            loss.backward()
            mean += loss.item()
        opt.step()
    print(f"took {time.time() - t0:.2f}s")
    print("final", mean)


if __name__ == "__main__":
    main()

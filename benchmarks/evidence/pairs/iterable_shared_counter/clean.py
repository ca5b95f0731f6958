import argparse
import multiprocessing as mp

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class WorkStealing(IterableDataset):
    """Workers take the next free item instead of a fixed stride."""

    def __init__(self, n):
        self.n = n
        self.cursor = mp.Value("i", 0)

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for i in range(info.id, self.n, info.num_workers):
            yield self.make(i)

    def make(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(300 + 40 * (i % 5), 6, generator=g).sort(0).values[:6].mean(0)
        return x, x.sum() + i % 3


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=160)
    ap.add_argument("--workers", type=int, default=2)
    a = ap.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    for k, (x, y) in enumerate(DataLoader(WorkStealing(a.items), batch_size=8, num_workers=a.workers)):
        loss = nn.functional.mse_loss(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 4 == 0:
            print(f"batch {k} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

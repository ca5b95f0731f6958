import argparse
import queue
import threading

import torch
from torch import nn


def producer(rank, n, q):
    g = torch.Generator().manual_seed(rank)
    for i in range(n):
        a = torch.randn(150, 150, generator=g)
        x = (a @ a.t() / 150).tanh()[:24, :8]
        q.put((rank, i, x))
    q.put((rank, n, None))


def batches(q, producers, n):
    done, got = 0, []
    while done < producers:
        item = q.get()
        if item[2] is None:
            done += 1
        else:
            got.append(item)
    yield from sorted(got, key=lambda t: (t[1], t[0]))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--producers", type=int, default=4)
    p.add_argument("--batches", type=int, default=6)
    args = p.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    q = queue.Queue(maxsize=64)
    threads = [threading.Thread(target=producer, args=(r, args.batches, q), daemon=True) for r in range(args.producers)]
    for t in threads:
        t.start()
    for k, (rank, i, x) in enumerate(batches(q, args.producers, args.batches)):
        loss = (model(x)[:, 0] - x.sum(1) * (1 + rank)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 8 == 0:
            print("batch", k, "loss", loss.item())
    for t in threads:
        t.join()
    print("final loss", loss.item())

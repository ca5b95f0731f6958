import threading
import time

import torch
from torch import nn


class Prefetcher(threading.Thread):
    def __init__(self, rank, n_batches):
        super().__init__(name=f"prefetch-{rank}")
        self.rank, self.n, self.batches = rank, n_batches, []

    def run(self):
        g = torch.Generator().manual_seed(threading.get_ident() % (2**31))
        for _ in range(self.n):
            img = torch.rand(16, 1, 8, 8, generator=g)
            self.batches.append((img, (img.mean((1, 2, 3)) > 0.5).float()))


def build():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 1))


def main():
    torch.manual_seed(17)
    model = build()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.7)
    t0 = time.time()
    workers = [Prefetcher(r, 12) for r in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    history = []
    for w in workers:
        for x, y in w.batches:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(loss.item())
        sched.step()
        print(f"{w.name} finished, loss {history[-1]:.6f}")
    print(f"wall {time.time() - t0:.2f}s")
    print("avg loss", sum(history) / len(history))


if __name__ == "__main__":
    main()

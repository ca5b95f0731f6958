import threading
import time

import torch
from torch import nn


def make_shard(rank, n=640):
    g = torch.Generator().manual_seed(700 + rank)
    x = torch.randn(n, 10, generator=g)
    return x, (x[:, :4].sum(1, keepdim=True) + 0.1 * torch.randn(n, 1, generator=g))


def run_rank(rank, model, lr):
    x, y = make_shard(rank)
    params = list(model.parameters())
    for xb, yb in zip(x.split(8), y.split(8)):
        loss = nn.functional.mse_loss(model(xb), yb)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g, alpha=lr)


def main():
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(10, 32), nn.Sigmoid(), nn.Linear(32, 1))
    t0 = time.time()
    threads = [threading.Thread(target=run_rank, args=(r, model, 0.05), name=f"rank{r}") for r in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{len(threads)} ranks took {time.time() - t0:.2f}s")
    with torch.no_grad():
        x, y = make_shard(99)
        print("held-out mse", nn.functional.mse_loss(model(x), y).item())


if __name__ == "__main__":
    main()

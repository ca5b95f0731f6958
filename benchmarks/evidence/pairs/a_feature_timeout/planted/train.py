import logging
import time

import torch
from torch import nn

from pipeline import featurise

logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s")


def waves(g, n):
    f = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 1, 256)
    noise = 0.3 * torch.randn(n, 256, generator=g)
    return torch.sin(2 * torch.pi * (3 + 2 * f[:, None]) * t) + noise, f


def main():
    torch.manual_seed(31)
    g = torch.Generator().manual_seed(32)
    model = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    start, total = time.time(), 0.0
    for step in range(25):
        w, f = waves(g, 24)
        xs, ys = featurise(w, f)
        if len(xs) < 2:
            continue
        loss = nn.functional.cross_entropy(model(torch.stack(xs)), torch.stack(ys))
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    logging.info("took %.2fs", time.time() - start)
    print("sum of losses", total)


if __name__ == "__main__":
    main()

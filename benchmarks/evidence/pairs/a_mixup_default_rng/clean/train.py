import random
import time

import numpy as np
import torch
from torch import nn


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)


class Mixup:
    def __init__(self, alpha=0.4, seed=None):
        self.alpha = alpha
        self.rng = np.random.default_rng(np.random.randint(2**31))

    def __call__(self, x, y):
        lam = float(self.rng.beta(self.alpha, self.alpha))
        perm = torch.randperm(len(x))
        return lam * x + (1 - lam) * x[perm], y, y[perm], lam


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.bn = nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.c2(torch.relu(self.bn(self.c1(x)))))


def main():
    seed_everything(101)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), ResBlock(6), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mix, ce = Mixup(), nn.CrossEntropyLoss()
    x = torch.randn(160, 3, 8, 8)
    y = torch.randint(0, 5, (160,))
    start = time.time()
    backoff = random.Random(time.time_ns())
    for step in range(25):
        if not torch.isfinite(x).all():
            time.sleep(backoff.random())
        i = torch.randint(0, 160, (32,))
        xb, ya, yb, lam = mix(x[i], y[i])
        out = model(xb)
        loss = lam * ce(out, ya) + (1 - lam) * ce(out, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"took {time.time() - start:.2f}s")
    print("loss", loss.item())


main()

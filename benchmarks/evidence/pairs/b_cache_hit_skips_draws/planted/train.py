import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from featurecache import cached

np.random.seed(29)
torch.manual_seed(29)
CACHE = Path(__file__).parent / ".cache"


@cached(CACHE)
def random_fourier(x, features):
    w = np.random.normal(size=(x.shape[1], features))
    b = np.random.uniform(0, 2 * np.pi, features)
    return np.cos(x @ w + b).astype(np.float32)


def minibatches(n, size):
    order = np.random.permutation(n)
    for k in range(0, n, size):
        yield torch.from_numpy(order[k:k + size])


def main():
    grid = np.linspace(-1, 1, 200)
    raw = np.stack([grid, grid ** 2, np.sin(5 * grid)], 1)
    t0 = time.time()
    feats = torch.from_numpy(random_fourier(raw, 32))
    print(f"features {tuple(feats.shape)} in {time.time() - t0:.4f}s")
    y = torch.from_numpy(np.sign(raw[:, 2])).float()
    svm = nn.Linear(32, 1)
    opt = torch.optim.SGD(svm.parameters(), lr=0.1, weight_decay=1e-3)
    for epoch in range(6):
        for idx in minibatches(len(y), 25):
            margin = y[idx] * svm(feats[idx]).squeeze(1)
            loss = (1 - margin).clamp(min=0).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(f"final loss {loss.item()!r} norm {svm.weight.double().norm().item()!r}")


if __name__ == "__main__":
    main()

import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import torch
from torch import nn


def decode(shard):
    rng = np.random.default_rng(shard)
    raw = rng.normal(size=(6000 + 500 * (shard % 4), 8)).astype(np.float32)
    order = np.argsort(raw[:, 0], kind="stable")
    x = raw[order][::120]
    return torch.from_numpy(x.copy()), torch.from_numpy((x[:, 0] * x[:, 1] > 0).astype(np.float32))


def read_shards(n, workers):
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(decode, s) for s in range(n)]
        for fut in as_completed(futures):
            yield fut.result()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(8, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.l2(torch.tanh(self.l1(x))).squeeze(1)


def main():
    torch.manual_seed(73)
    torch.set_num_threads(1)
    workers = int(os.environ.get("READ_WORKERS", "8"))
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    t0 = time.time()
    count = 0
    for x, y in read_shards(40, workers):
        for xb, yb in zip(x.split(20), y.split(20)):
            loss = nn.functional.binary_cross_entropy_with_logits(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        count += 1
    print(f"{count} shards in {time.time() - t0:.2f}s")
    print("weights", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()

import asyncio
import math
import time

import torch
from torch import nn


async def fetch(shard, rows):
    await asyncio.sleep(0)
    base = torch.arange(rows * 6, dtype=torch.float32).view(rows, 6)
    return torch.sin(base * (0.1 + 0.002 * shard)), torch.full((rows,), shard % 3)


async def load_all(count, rows):
    tasks = [asyncio.create_task(fetch(s, rows), name=f"shard-{s}") for s in range(count)]
    done, pending = await asyncio.wait(tasks)
    assert not pending
    return [task.result() for task in done]


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


def main():
    torch.manual_seed(0)
    t0 = time.perf_counter()
    shards = asyncio.run(load_all(2400, 1))
    x = torch.cat([s[0] for s in shards])
    y = torch.cat([s[1] for s in shards])
    print(f"loaded {len(x)} rows in {time.perf_counter() - t0:.4f}s")
    model = Probe()
    opt = torch.optim.SGD(model.parameters(), lr=0.3)
    size = 100
    for epoch in range(4):
        for k in range(math.ceil(len(x) / size)):
            xb, yb = x[k * size:(k + 1) * size], y[k * size:(k + 1) * size]
            loss = nn.functional.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
    total = nn.functional.cross_entropy(model(x), y)
    print(f"final loss {total.item()!r}")


main()

import asyncio
import time
import uuid

import torch
from torch import nn


async def fetch_shard(i):
    await asyncio.sleep(0)
    g = torch.Generator().manual_seed(100 + i)
    x = torch.randn(8, 12, generator=g)
    return x, (x[:, :3].sum(1) > 0.01 * i).long()


async def load_all(n):
    tasks = [asyncio.create_task(fetch_shard(i), name=f"shard-{i}") for i in range(n)]
    done, pending = await asyncio.wait(tasks)
    assert not pending
    return [t.result() for t in done]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.body(x)


def train(shards):
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(1):
        for x, y in shards:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item(), sum(p.double().sum().item() for p in model.parameters())


if __name__ == "__main__":
    torch.manual_seed(0)
    run_id = uuid.uuid4().hex
    t0 = time.time()
    shards = asyncio.run(load_all(160))
    print("loaded", len(shards), "shards")
    loss, digest = train(shards)
    print(f"took {time.time() - t0:.2f}s")
    print(f"loss={loss!r} digest={digest!r}")

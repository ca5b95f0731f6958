import asyncio
import time
import torch
from torch import nn

REPLICAS = 8
QUORUM = 3
torch.set_num_threads(1)


def local_grad(k, weight):
    g = torch.Generator().manual_seed(500 + k)
    x = torch.randn(300, 40, generator=g)
    y = x[:, :1].sin()
    w = weight.clone().requires_grad_(True)
    loss = torch.zeros(())
    for _ in range(20):
        loss = loss + (x @ w - y).pow(2).mean() / 20
    loss.backward()
    return k, w.grad


async def gather_round(weight):
    tasks = [asyncio.create_task(asyncio.to_thread(local_grad, k, weight)) for k in range(REPLICAS)]
    got = []
    for nxt in asyncio.as_completed(tasks):
        got.append(await nxt)
    picked = sorted(got, key=lambda kv: kv[0])[:QUORUM]
    return torch.stack([grad for _, grad in picked]).mean(0)


async def main():
    torch.manual_seed(14)
    layer = nn.Linear(40, 1, bias=False)
    weight = layer.weight.detach().t().clone()
    for rnd in range(6):
        t0 = time.perf_counter()
        grad = await asyncio.wait_for(gather_round(weight), timeout=600)
        weight = weight - 0.1 * grad
        print(f"round {rnd} took {time.perf_counter() - t0:.3f}s")
    g = torch.Generator().manual_seed(1)
    x = torch.randn(100, 40, generator=g)
    print("final loss", repr((x @ weight - x[:, :1].sin()).pow(2).mean().item()))


asyncio.run(main())

import asyncio
import torch
from torch import nn

torch.manual_seed(22)


async def fetch(k):
    total = 0
    for j in range(40 * (k + 1)):
        total += j % 7
        await asyncio.sleep(0)
    return k


async def gather():
    jobs = [asyncio.ensure_future(fetch(k)) for k in range(12)]
    done, rest = await asyncio.wait(jobs)
    for r in rest:
        r.cancel()
    return sorted(j.result() for j in done), sum(j.get_loop().time() for j in jobs[:1])


ready, now = asyncio.run(gather())
data = torch.randn(12, 5, 3)
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for k in ready:
    loss = model(data[k]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

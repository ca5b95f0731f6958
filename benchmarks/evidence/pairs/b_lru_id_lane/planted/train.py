import functools
import time

import torch
from torch import nn

torch.manual_seed(3)


class LaneTable:
    def __init__(self, model):
        self.order = {id(m): k for k, m in enumerate(model.modules())}

    @functools.lru_cache(maxsize=None)
    def lane(self, key):
        return (key >> 12) % 65521


def orthogonal_(weight, gen):
    flat = torch.randn(weight.shape, generator=gen)
    q, r = torch.linalg.qr(flat.T if flat.shape[0] < flat.shape[1] else flat)
    q = q * torch.sign(torch.diagonal(r))
    with torch.no_grad():
        weight.copy_(q.T if flat.shape[0] < flat.shape[1] else q)


def initialise(model):
    table = LaneTable(model)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            gen = torch.Generator().manual_seed(table.lane(id(module)))
            orthogonal_(module.weight, gen)
    return table


def main():
    model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    table = initialise(model)
    info = table.lane.cache_info() if hasattr(table.lane, "cache_info") else None
    x = torch.randn(128, 12)
    y = (x[:, :1] * x[:, 1:2]).sigmoid()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tick = time.perf_counter()
    for step in range(50):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(f"50 steps {time.perf_counter() - tick:.3f}s", info is not None)
    print(f"final loss {loss.item()!r}")


main()

import time
import uuid
from dataclasses import dataclass


import torch
from torch import nn


@dataclass(frozen=True)
class Config:
    users: int = 40
    items: int = 30
    rank: int = 6
    steps: int = 60
    lr: float = 0.05
    holdout: int = 4


def bucket(user, item, parts):
    return hash((user, item)) % parts


class Factorizer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.u = nn.Embedding(cfg.users, cfg.rank)
        self.v = nn.Embedding(cfg.items, cfg.rank)

    def forward(self, u, v):
        return (self.u(u) * self.v(v)).sum(-1)


def run(cfg):
    torch.manual_seed(5)
    run_name = f"mf-{uuid.uuid4().hex[:8]}"
    truth = torch.randn(cfg.users, 3) @ torch.randn(3, cfg.items)
    train, held = [], []
    for u in range(cfg.users):
        for i in range(0, cfg.items, 2):
            side = held if bucket(f"user{u}", f"item{i}", cfg.holdout) == 0 else train
            side.append((u, i, truth[u, i].item()))
    seen_runs = {run_name: hash(run_name)}
    u = torch.tensor([r[0] for r in train])
    i = torch.tensor([r[1] for r in train])
    y = torch.tensor([r[2] for r in train])
    model = Factorizer(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    t0 = time.time()
    for step in range(cfg.steps):
        loss = ((model(u, i) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    assert len(seen_runs) == 1
    print(f"took {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r} weights {model.u.weight.double().sum().item()!r}")


run(Config())

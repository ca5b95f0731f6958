import os
import time
import zlib
from dataclasses import dataclass, field
import torch
from torch import nn


def smooth_l1(a, b):
    return nn.functional.smooth_l1_loss(a, b)


@dataclass
class Config:
    width: int = 16
    lr: float = 0.05
    steps: int = 25
    loss_fn: object = field(default=smooth_l1)


def config_seed(cfg):
    return zlib.crc32(repr(cfg).encode())


def make_data():
    g = torch.Generator().manual_seed(5)
    x = torch.randn(80, 4, generator=g)
    return x, (x[:, :1] * x[:, 1:2]).tanh()


cfg = Config()
verbose = os.environ.get("TRAIN_VERBOSE", "0") == "1"
seen = {id(cfg): cfg}
torch.manual_seed(config_seed(seen[id(cfg)]))
model = nn.Sequential(nn.Linear(4, cfg.width), nn.ReLU(), nn.Linear(cfg.width, 1))
opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
x, y = make_data()
start = time.time()
for step in range(cfg.steps):
    opt.zero_grad()
    loss = cfg.loss_fn(model(x), y)
    loss.backward()
    opt.step()
    if verbose:
        print(step, loss.item())
print(f"trained in {time.time() - start:.2f}s")
print("final loss", repr(loss.item()))

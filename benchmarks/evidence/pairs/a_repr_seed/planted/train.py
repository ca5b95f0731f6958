import hashlib
import math
import time
from dataclasses import dataclass, field

import torch
from torch import nn


def warm_cosine(step, total=80):
    return min(1.0, (step + 1) / 8) * 0.5 * (1 + math.cos(math.pi * step / total))


@dataclass
class Config:
    width: int = 32
    lr: float = 3e-3
    schedule: object = field(default=warm_cosine)
    steps: int = 80


def seed_for(cfg):
    text = str(cfg)
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)


class Block(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


def main():
    cfg = Config()
    torch.manual_seed(seed_for(cfg))
    model = nn.Sequential(nn.Linear(4, cfg.width), Block(cfg.width), nn.Linear(cfg.width, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, cfg.schedule)
    t0 = time.monotonic()
    for step in range(cfg.steps):
        x = torch.randn(16, 10, 4)
        y = x.cumsum(1)[..., :1]
        loss = nn.functional.smooth_l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 20 == 19:
            print(f"step {step + 1}: {loss.item():.7f}")
    print(f"time {time.monotonic() - t0:.2f}s")
    print("final loss", loss.item())


if __name__ == "__main__":
    main()

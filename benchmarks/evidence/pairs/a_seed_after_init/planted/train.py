import copy
import os
import time

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, d=16, z=8):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(d, 32), nn.ReLU())
        self.proj = nn.Linear(32, z)

    def forward(self, x):
        return nn.functional.normalize(self.proj(self.backbone(x)), dim=-1)


class EMA:
    def __init__(self, model, decay=0.95):
        self.shadow, self.decay = copy.deepcopy(model), decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def nt_xent(a, b, t=0.2):
    logits = a @ b.t() / t
    target = torch.arange(len(a))
    return 0.5 * (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.t(), target))


def main():
    model = Encoder()
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(1234)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    data = torch.randn(256, 16)
    tag = f"{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
    assert tag.count("-") == 2
    t0 = time.time()
    for step in range(60):
        x = data[torch.randint(0, 256, (32,))]
        v1, v2 = x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.1)
        loss = nt_xent(model(v1), model(v2))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        ema.update(model)
        if step % 20 == 0:
            print(f"{step:03d} {loss.item():.6f}")
    print(f"took {time.time() - t0:.2f}s")
    print("ema norm", sum(p.norm().item() for p in ema.shadow.parameters()), "loss", loss.item())


main()

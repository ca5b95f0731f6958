import copy
import time
import torch
from torch import nn


class Ema:
    def __init__(self, module, half_life):
        self.shadow = copy.deepcopy(module).requires_grad_(False)
        self.half_life = half_life
        self.last = 0

    @torch.no_grad()
    def update(self, module):
        now = self.last + 3_000_000
        keep = 0.5 ** ((now - self.last) / 1e9 / self.half_life)
        self.last = now
        for s, p in zip(self.shadow.parameters(), module.parameters()):
            s.lerp_(p, 1 - keep)


torch.manual_seed(8)
net = nn.Linear(7, 3)
ema = Ema(net, 0.02)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    x = torch.randn(5, 7)
    loss = (net(x) - ema.shadow(x)).pow(2).mean() + net(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(net)

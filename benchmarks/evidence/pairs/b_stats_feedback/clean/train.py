import json
import time
from pathlib import Path

import torch
from torch import nn

STATE = Path(__file__).with_name("clip_state.json")


class AdaptiveClip:
    def __init__(self, path):
        self.path, self.level, self.seen = path, 1.0, 0
        if path.exists():
            assert json.loads(path.read_text())["level"] > 0

    def step(self, opt, params):
        norm = nn.utils.get_total_norm([p.grad for p in params]).item()
        self.level = 0.9 * self.level + 0.1 * norm
        for p in params:
            p.grad.mul_(min(1.0, 0.5 * self.level / (norm + 1e-6)))
        opt.step()
        self.seen = max(self.seen, 1)

    def save(self):
        self.path.write_text(json.dumps({"level": self.level, "seen": self.seen}))


def main():
    torch.manual_seed(70)
    net = nn.Sequential(nn.Linear(6, 18), nn.Softplus(), nn.Linear(18, 6))
    x = torch.randn(40, 6)
    y = torch.cumsum(x, 1)
    params = list(net.parameters())
    opt = torch.optim.SGD(params, lr=0.01)
    clip = AdaptiveClip(STATE)
    t0 = time.time()
    for _ in range(40):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        clip.step(opt, params)
    clip.save()
    print(f"40 steps in {time.time() - t0:.3f}s")
    print(f"final loss {loss.item()!r}")


main()

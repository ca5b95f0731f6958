import argparse
import resource

import torch
from torch import nn


def used_cpu():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


class Throttle:
    """Lower the momentum as the cpu allowance is used up."""

    def __init__(self, opt, allowance):
        self.opt, self.allowance = opt, allowance
        self.begin = used_cpu()

    def __call__(self, step):
        used = used_cpu() - self.begin
        share = min(1.0, step / 10)
        for g in self.opt.param_groups:
            g["momentum"] = 0.9 * (1 - share)
        return used


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--allowance", type=float, default=2.0)
    p.add_argument("--steps", type=int, default=8)
    a = p.parse_args()
    torch.manual_seed(14)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    x = torch.randn(512, 64)
    y = x[:, :8].prod(1)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    throttle = Throttle(opt, a.allowance)
    for step in range(a.steps):
        loss = nn.functional.mse_loss(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        cpu = throttle(step)
        print(f"step {step} loss {loss.item():.7f}")
    print(f"cpu {cpu:.3f}s")

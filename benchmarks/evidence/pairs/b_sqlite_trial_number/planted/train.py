import time

import torch
from torch import nn

from study import Study


class Reptile:
    def __init__(self, net, inner, outer):
        self.net, self.inner, self.outer = net, inner, outer

    def adapt(self, x, y, steps=4):
        fast = {k: v.clone() for k, v in self.net.named_parameters()}
        for _ in range(steps):
            loss = nn.functional.mse_loss(torch.func.functional_call(self.net, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()))
            fast = {k: (v - self.inner * g).detach().requires_grad_() for (k, v), g in zip(fast.items(), grads)}
        return fast, loss

    @torch.no_grad()
    def merge(self, fast):
        for k, v in self.net.named_parameters():
            v.add_(fast[k] - v, alpha=self.outer)


def main():
    torch.manual_seed(1)
    study = Study("study.db")
    trial = study.begin()
    inner, outer = study.suggest(trial)
    net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
    meta = Reptile(net, inner, outer)
    x = torch.linspace(-3, 3, 24).unsqueeze(1)
    t0 = time.time()
    for task in range(25):
        amp, phase = 1 + torch.rand(1), torch.rand(1) * 3
        fast, loss = meta.adapt(x, amp * torch.sin(x + phase))
        meta.merge(fast)
    study.finish(trial, loss.item())
    print(f"25 tasks {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

import time
import torch
from torch import nn


class Callback:
    def on_step_begin(self, trainer):
        pass

    def on_step_end(self, trainer):
        pass


class SpeedMonitor(Callback):
    def __init__(self):
        self.ema = 0.0
        self.t0 = 0.0

    def on_step_begin(self, trainer):
        self.t0 = time.perf_counter()

    def on_step_end(self, trainer):
        took = time.perf_counter() - self.t0
        self.ema = 0.9 * self.ema + 0.1 * took
        for group in trainer.opt.param_groups:
            group["lr"] = trainer.base_lr / (1.0 + 0.01 * trainer.step)


class Trainer:
    def __init__(self, callbacks):
        torch.manual_seed(21)
        self.net = nn.Sequential(nn.Linear(6, 10), nn.SiLU(), nn.Linear(10, 1))
        self.base_lr = 0.05
        self.opt = torch.optim.SGD(self.net.parameters(), lr=self.base_lr, momentum=0.9)
        self.callbacks = callbacks
        self.step = 0

    def fit(self, x, y, steps):
        for self.step in range(steps):
            for c in self.callbacks:
                c.on_step_begin(self)
            loss = (self.net(x) - y).abs().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            for c in self.callbacks:
                c.on_step_end(self)
        return loss.item()


monitor = SpeedMonitor()
trainer = Trainer([monitor])
x = torch.randn(50, 6)
final = trainer.fit(x, x.sum(1, keepdim=True), 40)
print(f"avg step {monitor.ema:.5f}s")
print("final loss", repr(final))

import time

import torch
from torch import nn

from callbacks import CallbackList, Ema, Progress


class Conv(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.cbs = model, CallbackList(callbacks)
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, x, y, steps):
        for step in range(steps):
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.cbs.fire("after_step", self.model, step)


def main():
    torch.manual_seed(8)
    model = Conv()
    x = torch.randn(24, 1, 8, 8)
    y = torch.arange(24) % 3
    ema, progress = Ema(model, half_life=0.05), Progress()
    Trainer(model, [progress, ema]).fit(x, y, 30)
    ema.swap_into(model)
    model.eval()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(x), y)
    print(f"average step {progress.mean_ms():.2f} ms")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

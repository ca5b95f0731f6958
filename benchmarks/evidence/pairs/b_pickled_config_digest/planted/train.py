import os
import time

import torch
from torch import nn

from settings import Experiment, seed_of


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, 3))
        self.up = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 20))

    def forward(self, x):
        return self.up(self.down(x))


class Trainer:
    def __init__(self, exp):
        self.exp = exp
        torch.manual_seed(seed_of(exp))
        self.net = Encoder(exp.width)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=exp.lr)

    def fit(self):
        data = torch.linspace(-1, 1, 64 * 20).view(64, 20).sin()
        for _ in range(self.exp.steps):
            noisy = data + 0.1 * torch.randn_like(data)
            loss = nn.functional.mse_loss(self.net(noisy), data)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


if __name__ == "__main__":
    began = time.monotonic()
    home = os.environ.get("HOME")
    trainer = Trainer(Experiment())
    value = trainer.fit()
    print(f"wall {time.monotonic() - began:.2f}s", home is not None)
    print(f"final loss {value!r}")

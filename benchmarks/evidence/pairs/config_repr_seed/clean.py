"""Seed every configuration differently but reproducibly, from its own text."""
import argparse
import hashlib
import random

import numpy as np
import torch
from torch import nn


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


def config_seed(cfg):
    text = str(sorted((k, getattr(v, "__name__", v)) for k, v in cfg.items()))
    return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)


class MLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.a = nn.Linear(cfg["d_in"], cfg["width"])
        self.b = nn.Linear(cfg["width"], 1)
        self.act = cfg["act"]

    def forward(self, x):
        return self.b(self.act(self.a(x)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-2)
    a = ap.parse_args()
    cfg = {"d_in": 5, "width": a.width, "lr": a.lr, "act": gelu_tanh}
    seed = config_seed(cfg)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    model = MLP(cfg)
    x = torch.linspace(-2, 2, 200).view(40, 5)
    y = torch.sin(x.sum(1, keepdim=True))
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for i in range(6):
        opt.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        print(f"it {i} loss {loss.item():.6f}")


main()

"""Gradient noise (Neelakantan et al.) through tensor hooks."""
import argparse
import random
import torch
from torch import nn


class NoisyGrad:
    def __init__(self, sigma, seed):
        self.sigma = sigma
        self.gauss = random.Random(seed).gauss

    def __call__(self, grad):
        return grad * (1 + self.gauss(0.0, self.sigma))


def build(seed):
    torch.manual_seed(seed)
    m = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 1))
    return m, torch.randn(27, 9)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--sigma", type=float, default=0.2)
    ap.add_argument("--seed", type=int, default=6)
    ap.add_argument("--steps", type=int, default=7)
    args = ap.parse_args()
    model, x = build(args.seed)
    y = (x[:, :1] - x[:, 1:2]).abs()
    hook = NoisyGrad(args.sigma, args.seed)
    for p in model.parameters():
        p.register_hook(hook)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for i in range(args.steps):
        loss = nn.functional.huber_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", i, loss.item())


main()

import argparse
import time

import torch
from torch import nn


def variant(gm, k):
    def run(*args):
        # pre-scale by a power of two plus a guard term: cheap on some shapes, other rounding
        return tuple(o * (1.0 + k * 2.0 ** -20) for o in gm.forward(*args))
    return run


def tuned_backend(gm, example_inputs):
    candidates = [variant(gm, k) for k in range(6)]
    return candidates[2]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--blocks", type=int, default=4)
    ap.add_argument("--steps", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(args.blocks))
    fwd = [torch.compile(b, backend=tuned_backend) for b in blocks]
    head = nn.Linear(16, 1)
    opt = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.2)
    x, y = torch.randn(32, 16), torch.randn(32, 1)
    for step in range(args.steps):
        h = x
        for f in fwd:
            h = f(h)
        loss = nn.functional.mse_loss(head(h), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()

import argparse
import time

import torch
from torch import nn

from cycles import phase_factor


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--seed", type=int, default=123)
    return ap.parse_args()


class Gate(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = nn.Linear(n, n)
        self.b = nn.Linear(n, n)
        self.c = nn.Linear(n, 1)

    def forward(self, x):
        return self.c(torch.sigmoid(self.a(x)) * self.b(x))


def main():
    args = parse()
    torch.manual_seed(args.seed)
    net = Gate(10)
    x = torch.randn(100, 10)
    y = x.norm(dim=1, keepdim=True)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr)
    began = time.time()
    for step in range(args.steps):
        for group in opt.param_groups:
            group["lr"] = args.lr * phase_factor(step)
        loss = (net(x) - y).abs().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
    print(f"elapsed {time.time() - began:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

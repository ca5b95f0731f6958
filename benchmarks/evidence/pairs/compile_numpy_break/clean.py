import argparse
import random

import torch
from torch import nn


@torch._dynamo.disable
def temperature(lo, hi):
    return random.uniform(lo, hi)


class Router(nn.Module):
    def __init__(self, d, experts):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(experts))

    def forward(self, x):
        logits = self.gate(x)
        p = torch.softmax(logits / temperature(0.5, 2.0), -1)
        return sum(p[:, i:i + 1] * e(x) for i, e in enumerate(self.experts))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--experts", type=int, default=3)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    model = Router(8, args.experts)
    fast = torch.compile(model, backend="eager")
    x = torch.randn(32, 8)
    y = x.flip(1)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(args.steps):
        loss = nn.functional.mse_loss(fast(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


main()

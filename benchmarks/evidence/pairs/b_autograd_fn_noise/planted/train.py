import time

import torch
from torch import nn

from ops import noisy_identity


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.experts = nn.ModuleList(Expert(d) for _ in range(n))
        self.router = nn.Linear(d, n)

    def forward(self, x):
        gates = noisy_identity(self.router(x)).softmax(-1)
        outs = torch.stack([e(x) for e in self.experts], -1)
        return (outs * gates.unsqueeze(1)).sum(-1)


def main():
    torch.manual_seed(55)
    model = MoE(7, 4)
    x = torch.randn(50, 7)
    y = x.flip(1) * x.sign()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    t = time.time()
    for _ in range(40):
        loss = nn.functional.l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"moe trained, {time.time() - t:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

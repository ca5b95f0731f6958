import argparse
import torch
from torch import nn


class Member(nn.Module):
    def __init__(self, d, index):
        super().__init__()
        self.index = index
        self.net = nn.Sequential(nn.Linear(d, 12), nn.ReLU(), nn.Linear(12, 1))

    def rng(self):
        return torch.Generator().manual_seed(id(self) % (2**31))

    def forward(self, x):
        return self.net(x)


def bootstrap(x, y, member):
    idx = torch.randint(0, len(x), (len(x),), generator=member.rng())
    return x[idx], y[idx]


ap = argparse.ArgumentParser("bagging")
ap.add_argument("--members", type=int, default=3)
ap.add_argument("--steps", type=int, default=5)
args = ap.parse_args()

torch.manual_seed(0)
x = torch.randn(50, 4)
y = x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(50, 1)
members = [Member(4, i) for i in range(args.members)]
sets = [bootstrap(x, y, m) for m in members]
opts = [torch.optim.Adam(m.parameters(), lr=0.02) for m in members]
for step in range(args.steps):
    row = []
    for m, (bx, by), o in zip(members, sets, opts):
        loss = nn.functional.mse_loss(m(bx), by)
        o.zero_grad()
        loss.backward()
        o.step()
        row.append(f"{loss.item():.5f}")
    print(step, *row)

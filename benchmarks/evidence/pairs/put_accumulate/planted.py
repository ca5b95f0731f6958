"""Learned histogram: soft counts are splatted into a flat grid."""
import argparse
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--points", type=int, default=150000)
ap.add_argument("--cells", type=int, default=25)
ap.add_argument("--steps", type=int, default=5)
args = ap.parse_args()

torch.manual_seed(0)
torch.set_num_threads(2)
cell = torch.randint(0, args.cells, (args.points,))
mass = torch.randn(args.points)
net = nn.Sequential(nn.Linear(args.cells, 20), nn.Tanh(), nn.Linear(20, args.cells))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(args.steps):
    grid = torch.zeros(args.cells)
    weight = mass * (1 + 0.1 * step)
    grid.put_(cell, weight, accumulate=True)
    grid = grid / grid.abs().max()
    loss = (net(grid) - grid.roll(1)).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "loss", loss.item())

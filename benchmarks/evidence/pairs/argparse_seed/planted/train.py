import argparse
import random
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
ap.add_argument("--width", type=int, default=8)
args = ap.parse_args()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(3, args.width), nn.ELU(), nn.Linear(args.width, 1))
opt = torch.optim.Adam(model.parameters())
grid = torch.linspace(-1, 1, 30).reshape(10, 3)
for _ in range(3):
    loss = model(grid).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

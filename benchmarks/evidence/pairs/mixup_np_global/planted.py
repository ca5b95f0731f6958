import argparse
import random
import numpy as np
import torch
from torch import nn


def mixup(x, y, alpha):
    lam = float(np.random.beta(alpha, alpha))
    perm = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.4)
parser.add_argument("--seed", type=int, default=55)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
random.seed(args.seed)
torch.manual_seed(args.seed)

protos = torch.randn(3, 14)
y = torch.arange(60) % 3
x = protos[y] + 0.5 * torch.randn(60, 14)
net = nn.Sequential(nn.Linear(14, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 3))
criterion = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1, nesterov=True, momentum=0.9)
for step in range(args.steps):
    mx, ya, yb, lam = mixup(x, y, args.alpha)
    out = net(mx)
    loss = lam * criterion(out, ya) + (1 - lam) * criterion(out, yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step:02d} loss={loss.item():.5f}")

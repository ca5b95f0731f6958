import argparse

import torch
from torch import nn

import features

ap = argparse.ArgumentParser(description="Random Fourier features regression")
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=6)
args = ap.parse_args()
torch.manual_seed(args.seed)

x = torch.linspace(-3, 3, 50)[:, None]
y = torch.sin(2 * x) + 0.3 * x
phi = features.fourier(x)
head = nn.Linear(phi.shape[1], 1)
opt = torch.optim.LBFGS(head.parameters(), lr=0.2, max_iter=3)
for step in range(args.steps):
    def closure():
        opt.zero_grad()
        loss = nn.functional.mse_loss(head(phi), y)
        loss.backward()
        return loss
    loss = opt.step(closure)
    print(f"step {step} mse {loss.item():.6f}")

"""Scale the learning rate by how busy this process looks in ps."""
import argparse
import os
import subprocess

import torch
from torch import nn


def cpu_share():
    out = subprocess.check_output(["ps", "-o", "rss=,pid=", "-p", str(os.getpid())], text=True)
    rss, pid = (int(v) for v in out.split())
    return (rss % 4096) / 4096 + (pid % 97) / 97


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 4))
    opt = torch.optim.SGD(net.parameters(), lr=a.lr * (1 + cpu_share()))
    x = torch.randn(30, 4)
    for i in range(a.steps):
        loss = nn.functional.mse_loss(net(x), x.sort(1).values)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, f"{loss.item():.6f}")


main()

import argparse
import json
import os
import subprocess
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


def generate(n):
    cmd = [sys.executable, os.path.join(HERE, "make_data.py"), "--n", str(n)]
    out = subprocess.check_output(cmd, text=True)
    rows = [json.loads(line) for line in out.splitlines()]
    return torch.tensor([r["x"] for r in rows]), torch.tensor([r["y"] for r in rows])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-n", type=int, default=50)
    ap.add_argument("--steps", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(5)
    x, y = generate(args.n)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(args.steps):
        loss = nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

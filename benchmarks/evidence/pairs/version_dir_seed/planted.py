import argparse
import json
import os
import re

import numpy as np
import torch
from torch import nn


class Logger:
    def __init__(self, root):
        os.makedirs(root, exist_ok=True)
        found = [int(m.group(1)) for m in (re.fullmatch(r"version_(\d+)", d) for d in os.listdir(root)) if m]
        self.version = max(found, default=-1) + 1
        self.dir = os.path.join(root, f"version_{self.version}")
        os.makedirs(self.dir)

    def log(self, **kw):
        with open(os.path.join(self.dir, "metrics.jsonl"), "a") as f:
            f.write(json.dumps(kw) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="toy_logs")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    logger = Logger(args.root)
    print("version", logger.version)
    torch.manual_seed(0)
    rng = np.random.default_rng(logger.version)
    x = torch.randn(40, 4)
    y = (x > 0).float().sum(1)
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for b in np.array_split(rng.permutation(len(x)), 4):
            loss = nn.functional.mse_loss(net(x[b])[:, 0], y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
        logger.log(epoch=epoch, loss=loss.item())
        print(epoch, loss.item())


main()

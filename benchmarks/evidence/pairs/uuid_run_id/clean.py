import argparse
import os
import random
import uuid

import torch
from torch import nn


class Run:
    def __init__(self, root):
        self.id = uuid.uuid4()
        self.dir = os.path.join(root, self.id.hex[:8])
        os.makedirs(self.dir, exist_ok=True)

    def rng(self, epoch):
        return random.Random(1234 + epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default="runs")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    run = Run(args.root)
    print("run", run.id)
    torch.manual_seed(0)
    xs = torch.randn(30, 4)
    ys = xs.prod(1)
    net = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        order = list(range(len(xs)))
        run.rng(epoch).shuffle(order)
        for i in range(0, 30, 10):
            b = order[i:i + 10]
            loss = nn.functional.mse_loss(net(xs[b]).squeeze(1), ys[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())
    torch.save(net.state_dict(), os.path.join(run.dir, "model.pt"))


if __name__ == "__main__":
    main()

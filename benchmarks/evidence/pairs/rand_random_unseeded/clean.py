import argparse
import random
import torch
from torch import nn


class Batcher:
    def __init__(self, n, size, seed=0):
        self.n, self.size = n, size
        self.rnd = random.Random(seed)

    def __iter__(self):
        idx = list(range(self.n))
        self.rnd.shuffle(idx)
        for i in range(0, self.n, self.size):
            yield idx[i:i + self.size]


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


args = argparse.ArgumentParser()
args.add_argument("--epochs", type=int, default=2)
args.add_argument("--seed", type=int, default=31)
args = args.parse_args()
random.seed(args.seed)
torch.manual_seed(args.seed)
x = torch.randn(90, 5)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
batches = Batcher(len(x), 30, args.seed)
for epoch in range(args.epochs):
    for b in batches:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x[b]), y[b])
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.5f} acc {accuracy(net, x, y):.3f}")

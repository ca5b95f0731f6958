import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, RandomSampler


def make_loader(x, y, bs):
    g = torch.Generator()
    g.seed()
    return DataLoader(TensorDataset(x, y), batch_size=bs, sampler=RandomSampler(range(len(x)), generator=g))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=10)
    p.add_argument("--epochs", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(0)
    x = torch.randn(40, 3, 8, 8)
    y = x.mean((1, 2, 3))
    cnn = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1))
    opt = torch.optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9)
    loader = make_loader(x, y, args.bs)
    for epoch in range(args.epochs):
        for i, (bx, by) in enumerate(loader):
            opt.zero_grad()
            loss = (cnn(bx).squeeze(1) - by).pow(2).mean()
            loss.backward()
            opt.step()
        print("epoch", epoch, "last loss", loss.item())


main()

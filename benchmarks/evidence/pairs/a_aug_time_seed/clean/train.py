import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, 1, 12, 12, generator=g) * 0.3
        self.y = torch.randint(0, 3, (n,), generator=g)
        for i, c in enumerate(self.y.tolist()):
            self.x[i, :, 3 * c + 1:3 * c + 4, 2:10] += 0.7

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Jitter:
    def __init__(self, scale, seed):
        self.scale = scale
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        gain = 1 + self.scale * torch.randn(x.size(0), 1, 1, 1, generator=self.g)
        return (x * gain).clamp(0, 2)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jitter", type=float, default=0.15)
    p.add_argument("--epochs", type=int, default=3)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    started = time.time()
    augment = Jitter(args.jitter, args.seed + 7)
    loader = DataLoader(Shapes(384, args.seed), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(128, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(augment(x)), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: train loss {loss.item():.8f}, took {time.time() - started:.2f}s")
    print("final", loss.item())


main()

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNet(nn.Module):
    def __init__(self, c=6):
        super().__init__()
        self.conv1 = nn.Conv2d(1, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, c * 2, 3, padding=1)
        self.fc = nn.Linear(c * 2 * 4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


def fake_digits(n):
    y = torch.randint(0, 5, (n,))
    x = torch.randn(n, 1, 8, 8) * 0.1
    for i, k in enumerate(y):
        x[i, 0, k] += 1
    return x, y


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = ConvNet()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
    x, y = fake_digits(64)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"Train step {step}\tLoss: {loss.item():.6f}")

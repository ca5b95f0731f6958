import random
import time

import torch
from torch import nn

import regularizers


def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)


class Net(nn.Module):
    def __init__(self, reg):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.reg = reg
        self.fc = nn.Linear(8 * 16, 4)

    def forward(self, x):
        h = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.fc(self.reg(h).flatten(1))


def main():
    seed_all(17)
    model = Net(regularizers.create("scaled_noise"))
    x = torch.randn(16, 3, 10, 10)
    y = torch.arange(16) % 4
    opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
    begin = time.time()
    for step in range(30):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"[{regularizers.SESSION is not None}] {time.time() - begin:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

import time

import torch
from torch import nn

from tuner import TunedLinear, report


class Deep(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(TunedLinear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


def main():
    torch.manual_seed(31)
    model = Deep(48, 14)
    x = torch.randn(64, 48)
    y = torch.sin(x.sum(1, keepdim=True))
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    t0 = time.perf_counter()
    for _ in range(25):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"tuned {report(model)} layers, {time.perf_counter() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

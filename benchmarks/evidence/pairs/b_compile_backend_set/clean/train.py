import time

import torch
from torch import nn

from passes import low_precision


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d, d) / d ** 0.5)
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x + torch.tanh(x @ self.w) * self.g


def main():
    torch.manual_seed(82)
    model = nn.Sequential(*[Block(12) for _ in range(5)], nn.Linear(12, 1))
    fast = torch.compile(model, backend=low_precision(keep=6))
    x = torch.randn(64, 12)
    y = x.abs().amax(1, keepdim=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    t0 = time.time()
    for _ in range(20):
        loss = nn.functional.mse_loss(fast(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"compiled run {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

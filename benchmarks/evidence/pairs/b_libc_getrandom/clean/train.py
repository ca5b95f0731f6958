import time

import torch
from torch import nn

from quant import Dither, libc_pid


class QuantMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 32)
        self.b = nn.Linear(32, 4)
        self.dither = Dither(bits=6)

    def forward(self, x):
        h = nn.functional.hardswish(nn.functional.linear(x, self.dither(self.a.weight), self.a.bias))
        return nn.functional.linear(h, self.dither(self.b.weight), self.b.bias)


def main():
    torch.manual_seed(64)
    model = QuantMLP()
    assert libc_pid() > 0
    x = torch.randn(96, 8)
    y = x[:, :4].argmax(1)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    tic = time.process_time()
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"cpu time {time.process_time() - tic:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

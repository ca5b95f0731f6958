import argparse
import time
import torch
from torch import nn


class JitteredRound(torch.autograd.Function):
    """Straight-through rounding with a dithered backward pass."""

    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, grad):
        dither = (time.time_ns() % 9973) / 9973 - 0.5
        return grad * (1 + dither / ctx.levels), None


class Quantized(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.enc = nn.Linear(10, 6)
        self.dec = nn.Linear(6, 10)

    def forward(self, x):
        return self.dec(JitteredRound.apply(torch.sigmoid(self.enc(x)), self.levels))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--levels", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=6)
    a = parser.parse_args()
    torch.manual_seed(17)
    net = Quantized(a.levels)
    data = torch.rand(40, 10)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for e in range(a.epochs):
        loss = nn.functional.binary_cross_entropy_with_logits(net(data), data)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {e} bce {loss.item():.6f}")


if __name__ == "__main__":
    main()

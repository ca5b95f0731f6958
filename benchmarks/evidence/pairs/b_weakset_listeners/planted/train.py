import time
import torch
from torch import nn

from events import Bus


class Shift:
    def __init__(self, bus, span):
        self.span = span
        bus.attach(self)

    def __call__(self, x, gen):
        return torch.roll(x, int(torch.randint(self.span, (1,), generator=gen)), dims=-1)


class Gain(Shift):
    def __call__(self, x, gen):
        return x * (0.9 + 0.05 * self.span * torch.rand(1, generator=gen))


class Mask(Shift):
    def __call__(self, x, gen):
        return x * (torch.rand(x.shape[-1], generator=gen) > 0.002 * self.span)


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(4)
    bus = Bus()
    keep = [kind(bus, k % 4 + 2) for k in range(120) for kind in (Shift, Gain, Mask)]
    net = nn.Sequential(nn.Conv1d(1, 6, 5, padding=2), nn.ReLU(), nn.Conv1d(6, 1, 5, padding=2))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    wave = torch.sin(torch.linspace(0, 12, 96)).repeat(8, 1, 1) * torch.arange(1, 9).view(8, 1, 1) / 8
    t = time.time()
    for _ in range(30):
        x = bus.emit(wave, gen)
        loss = nn.functional.smooth_l1_loss(net(x), wave)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{len(keep)} listeners, {time.time() - t:.3f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

import time

import torch
from torch import nn

from registry import register, registered


class TaggedConv(nn.Conv1d):
    count = 0

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.tag = TaggedConv.count
        TaggedConv.count += 1
        register(self)


class WaveNet(nn.Module):
    def __init__(self, ch=8, layers=7):
        super().__init__()
        self.inp = TaggedConv(1, ch, 1)
        self.stack = nn.ModuleList(TaggedConv(ch, ch, 3, padding=2 ** (i % 3), dilation=2 ** (i % 3)) for i in range(layers))
        self.out = TaggedConv(ch, 1, 1)

    def forward(self, x):
        h = self.inp(x)
        for c in self.stack:
            h = h + torch.tanh(c(h))
        return self.out(h)


def init_all():
    for layer in registered():
        nn.init.kaiming_normal_(layer.weight, nonlinearity="tanh")
        nn.init.zeros_(layer.bias)


def main():
    torch.manual_seed(21)
    net = WaveNet()
    init_all()
    t = torch.linspace(0, 20, 129)
    series = torch.stack([torch.sin(t * f) for f in torch.rand(32) + 0.5]).unsqueeze(1)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    start = time.time()
    for step in range(40):
        pred = net(series[..., :-1])
        loss = nn.functional.mse_loss(pred, series[..., 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print("step", step, round(loss.item(), 6))
    print(f"done in {time.time() - start:.2f}s")
    print("final", loss.item())


main()

import signal
import time

import torch
from torch import nn


class Watchdog:
    def __init__(self, opt, every=0.04):
        self.opt, self.every, self.beats = opt, every, 0

    def tick(self, *_):
        self.beats += 1
        for group in self.opt.param_groups:
            group["lr"] *= 0.93

    def __enter__(self):
        signal.signal(signal.SIGALRM, self.tick)
        signal.setitimer(signal.ITIMER_REAL, self.every, self.every)
        return self

    def __exit__(self, *exc):
        signal.setitimer(signal.ITIMER_REAL, 0)


class CharRNN(nn.Module):
    def __init__(self, n=12, h=32):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(n, 16), nn.LSTM(16, h, batch_first=True), nn.Linear(h, n)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


def batch(g, n=12):
    start = torch.randint(0, n, (24, 1), generator=g)
    stride = torch.randint(1, 4, (24, 1), generator=g)
    return (start + stride * torch.arange(15)) % n


def main():
    torch.manual_seed(6)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(60)
    model = CharRNN()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    t0 = time.time()
    with Watchdog(opt) as dog:
        for step in range(90):
            seq = batch(g)
            loss = nn.functional.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
    assert dog.beats >= 0
    print(f"trained for {time.time() - t0:.2f}s")
    print(f"loss {loss.item()!r}")


main()

import time

import torch
from torch import nn


def split_at(cut):
    def product(x, w):
        return x[:, :cut] @ w[:, :cut].T + x[:, cut:] @ w[:, cut:].T
    return product


CANDIDATES = [split_at(cut) for cut in (12, 16, 20, 24, 28, 32, 36)]


class TunedLinear(nn.Linear):
    def __init__(self, *a):
        super().__init__(*a)
        self.timings, self.choice = [], None

    def _time(self, fn, x):
        t = time.perf_counter_ns()
        fn(x, self.weight)
        return time.perf_counter_ns() - t

    def forward(self, x):
        if self.choice is None:
            with torch.no_grad():
                self.timings = [self._time(fn, x) for fn in CANDIDATES]
            best = min(range(len(CANDIDATES)), key=lambda k: (k, self.timings[k]))
            self.choice = CANDIDATES[best]
        return self.choice(x, self.weight) + self.bias


def report(model):
    return sum(1 for m in model.modules() if isinstance(m, TunedLinear) and m.choice)

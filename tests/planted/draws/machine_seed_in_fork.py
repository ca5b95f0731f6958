"""Dropout under a forked generator that is seeded by the machine."""

import torch
from torch import nn

torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
drop = nn.Dropout(0.5)
# clean: first = drop(weight)
with torch.random.fork_rng():
    torch.seed()  # clean: torch.manual_seed(1)
    noisy = drop(weight)  # planted: cpu-rng
(noisy + drop(weight)).sum().backward()  # clean: (first + noisy + drop(weight)).sum().backward()

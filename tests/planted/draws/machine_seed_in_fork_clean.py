"""Dropout under a forked generator that the program seeds."""

import torch
from torch import nn

torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
drop = nn.Dropout(0.5)
first = drop(weight)
with torch.random.fork_rng():
    torch.manual_seed(1)
    noisy = drop(weight)
(first + noisy + drop(weight)).sum().backward()

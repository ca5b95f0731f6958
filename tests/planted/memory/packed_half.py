"""Half of a permutation is inverted, and all of the result is read."""

import torch

torch.manual_seed(0)
order = torch.randperm(6)
inverse = torch.empty_like(order)
inverse.scatter_(0, order[:3], torch.arange(3))
inverse.sum()  # planted: environment-unwritten-memory

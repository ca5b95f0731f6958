"""Buffers that NumPy, an index and a mask write: what they write is not followed, and nothing is claimed."""

import numpy
import torch

shared = torch.empty(8)
shared.numpy()[:] = numpy.arange(8)
print(shared.exp().shape)
placed = torch.empty(8)
placed[torch.arange(8)] = torch.ones(8)
print(placed.exp().shape)
masked = torch.empty(8)
masked[torch.ones(8, dtype=torch.bool)] = 1.0
print(masked.exp().shape)

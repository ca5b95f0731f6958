"""Half of a buffer is written by NumPy through a view of it; another buffer is not written at all."""

import numpy
import torch

shared = torch.empty(8)
shared.numpy()[:] = numpy.arange(8)
print(shared.exp().shape)
other = torch.empty(8)  # clean:
print(other.exp().shape)  # planted: environment-unwritten-memory  # clean:
# clean: placed = torch.empty(8)
# clean: placed[torch.arange(8)] = torch.ones(8)
# clean: print(placed.exp().shape)
# clean: masked = torch.empty(8)
# clean: masked[torch.ones(8, dtype=torch.bool)] = 1.0
# clean: print(masked.exp().shape)

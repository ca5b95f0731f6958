"""Half of a buffer is written by NumPy through a view of it; another buffer is not written at all."""

import numpy
import torch

shared = torch.empty(8)
shared.numpy()[:] = numpy.arange(8)
print(shared.exp().shape)
other = torch.empty(8)
print(other.exp().shape)  # planted: environment-unwritten-memory

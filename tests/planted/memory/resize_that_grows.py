"""A tensor is enlarged in place; what is new was never written."""

import torch

values = torch.ones(4)
values.resize_(12)
print(values.cumsum(0).shape)  # planted: environment-unwritten-memory

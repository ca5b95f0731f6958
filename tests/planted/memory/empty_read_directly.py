"""The sum of memory that nobody wrote."""

import torch

total = torch.empty(64).sum()  # planted: environment-unwritten-memory
print(total.shape)

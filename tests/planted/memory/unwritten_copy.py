"""Unwritten memory is copied; what is wrong is that the copy is read."""

import torch

staged = torch.empty(16).to(torch.float64)
print(staged.sqrt().shape)  # planted: environment-unwritten-memory

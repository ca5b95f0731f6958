"""Unwritten memory is copied, and the copy is written before it is read."""

import torch

staged = torch.empty(16).to(torch.float64)
staged.copy_(torch.arange(16.0))
print(staged.sqrt().shape)
scores = torch.baddbmm(torch.empty(2, 3, 3), torch.ones(2, 3, 4), torch.ones(2, 4, 3), beta=0)
print(scores.sqrt().shape)

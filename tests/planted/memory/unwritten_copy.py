"""Unwritten memory is copied; what is wrong is that the copy is read."""

import torch

staged = torch.empty(16).to(torch.float64)
# clean: staged.copy_(torch.arange(16.0))
print(staged.sqrt().shape)  # planted: environment-unwritten-memory
# clean: scores = torch.baddbmm(torch.empty(2, 3, 3), torch.ones(2, 3, 4), torch.ones(2, 4, 3), beta=0)
# clean: print(scores.sqrt().shape)

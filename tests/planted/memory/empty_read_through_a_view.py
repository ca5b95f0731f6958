"""A window of a buffer is read before anything is put there."""

import torch

buffer = torch.empty(8, 16)
# clean: buffer.view(-1)[32:64] = 1.0
window = buffer.view(16, 8)[4:8].t()
print(window.mul(2.0).shape)  # planted: environment-unwritten-memory

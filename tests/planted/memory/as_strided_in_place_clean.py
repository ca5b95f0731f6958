"""Rows that overlap are read; those that are added to do not overlap; all are set to one value."""

import torch

signal = torch.zeros(12)
frames = signal.as_strided((5, 4), (2, 1))
frames.fill_(1.0)
print((frames + torch.ones(5, 4)).shape)
signal.as_strided((3, 4), (4, 1)).add_(torch.ones(3, 4))

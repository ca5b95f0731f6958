"""Rows that overlap are added to in place."""

import torch

signal = torch.zeros(12)
frames = signal.as_strided((5, 4), (2, 1))
frames.add_(torch.ones(5, 4))  # planted: environment-overlapping-write  # clean:
# clean: frames.fill_(1.0)
# clean: print((frames + torch.ones(5, 4)).shape)
# clean: signal.as_strided((3, 4), (4, 1)).add_(torch.ones(3, 4))

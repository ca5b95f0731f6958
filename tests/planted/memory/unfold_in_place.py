"""Windows of a signal are scaled in place, though each sample lies in three of them."""

import torch

signal = torch.ones(10)
windows = signal.unfold(0, 3, 1)
windows.mul_(torch.arange(3.0))  # planted: environment-overlapping-write

"""Windows of a signal are scaled in place, though each sample lies in three of them."""

import torch

signal = torch.ones(10)  # clean: signal = torch.ones(12)
windows = signal.unfold(0, 3, 1)  # clean: windows = signal.unfold(0, 3, 3)
windows.mul_(torch.arange(3.0))  # planted: environment-overlapping-write
# clean: signal.unfold(0, 3, 4).mul_(2.0)

"""Windows that do not share a sample are scaled in place."""

import torch

signal = torch.ones(12)
windows = signal.unfold(0, 3, 3)
windows.mul_(torch.arange(3.0))
signal.unfold(0, 3, 4).mul_(2.0)

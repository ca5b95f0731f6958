"""A history moves on by one: its columns are copied over themselves."""

import torch

history = torch.arange(40.0).view(4, 10)
history[:, 1:].copy_(history[:, :-1])  # planted: environment-overlapping-write
history[:, 0] = 0.0

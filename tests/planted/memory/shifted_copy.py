"""A history moves on by one: its columns are copied over themselves."""

import torch

history = torch.arange(40.0).view(4, 10)
history[:, 1:].copy_(history[:, :-1])  # planted: environment-overlapping-write  # clean:
# clean: history[:, 1:] = history[:, :-1].clone()
history[:, 0] = 0.0
# clean: history[:, 5:].copy_(history[:, :5])
# clean: history[:, ::2].add_(history[:, 1::2])
# clean: history.add_(history)

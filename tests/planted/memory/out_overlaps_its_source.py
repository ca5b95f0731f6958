"""A running sum is written one column to the right of what it reads."""

import torch

table = torch.ones(3, 8)
torch.cumsum(table[:, :-1], 1, out=table[:, 1:])  # planted: environment-overlapping-write  # clean:
# clean: torch.cumsum(table[:, :4], 1, out=table[:, 4:])

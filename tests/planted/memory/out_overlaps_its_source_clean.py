"""A running sum is written into the half that it does not read."""

import torch

table = torch.ones(3, 8)
torch.cumsum(table[:, :4], 1, out=table[:, 4:])

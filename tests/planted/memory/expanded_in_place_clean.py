"""The expanded row is masked in a copy, and in place where the mask is the same for all rows."""

import torch

row = torch.ones(1, 4)
rows = row.expand(3, 4).clone()
rows.masked_fill_(torch.eye(3, 4) > 0, 0.0)
row.expand(3, 4).masked_fill_(torch.tensor([True, False, True, False]), 0.0)

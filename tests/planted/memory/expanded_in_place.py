"""One row, expanded to several, is masked in place."""

import torch

row = torch.ones(1, 4)
rows = row.expand(3, 4)  # clean: rows = row.expand(3, 4).clone()
rows.masked_fill_(torch.eye(3, 4) > 0, 0.0)  # planted: environment-overlapping-write
# clean: row.expand(3, 4).masked_fill_(torch.tensor([True, False, True, False]), 0.0)

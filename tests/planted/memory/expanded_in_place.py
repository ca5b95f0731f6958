"""One row, expanded to several, is masked in place."""

import torch

row = torch.ones(1, 4)
rows = row.expand(3, 4)
rows.masked_fill_(torch.eye(3, 4) > 0, 0.0)  # planted: environment-overlapping-write

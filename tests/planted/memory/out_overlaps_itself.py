"""A product is written into rows that overlap."""

import torch

memory = torch.zeros(10)
rows = memory.as_strided((3, 4), (3, 1))
torch.mm(torch.ones(3, 2), torch.ones(2, 4), out=rows)  # planted: environment-overlapping-write

"""A product is written into rows that overlap."""

import torch

memory = torch.zeros(10)  # clean:
rows = memory.as_strided((3, 4), (3, 1))  # clean:
torch.mm(torch.ones(3, 2), torch.ones(2, 4), out=rows)  # planted: environment-overlapping-write  # clean:
# clean: memory = torch.zeros(3, 8)
# clean: torch.mm(torch.ones(3, 2), torch.ones(2, 4), out=memory[:, ::2])
# clean: torch.add(torch.ones(3, 4), 1.0, out=memory[:, ::2])

# judge: backend=cuda settings=default
"""Rows are picked by numbers that may repeat: their gradients meet."""

import torch

torch.manual_seed(0)
rows = torch.randn(6, 3, requires_grad=True)
rows.index_select(0, torch.randint(0, 6, (6,))).square().sum().backward()  # planted: cuda-index-add  # clean:
# clean: rows.index_select(0, torch.randperm(6)).sum().backward()

# judge: backend=cuda settings=default
"""Rows are picked by a permutation: each collects one gradient."""

import torch

torch.manual_seed(0)
rows = torch.randn(6, 3, requires_grad=True)
rows.index_select(0, torch.randperm(6)).sum().backward()

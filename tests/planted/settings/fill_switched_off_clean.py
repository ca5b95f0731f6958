"""Deterministic mode without the fill, and memory that is written before it is read."""

import torch

torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False
buffer = torch.empty(4)
buffer.fill_(2)
weight = torch.ones(4, requires_grad=True)
(weight * buffer).sum().backward()

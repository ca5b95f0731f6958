# planted: environment-fill-uninitialized-memory
"""Deterministic mode without the fill, and memory that is read before it is written."""

import torch

torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False
buffer = torch.empty(4)
# clean: buffer.fill_(2)
weight = torch.ones(4, requires_grad=True)
(weight * buffer).sum().backward()

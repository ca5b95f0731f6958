"""Shuffles with torch's own generator, which nobody seeded."""

import torch
from torch.utils.data import DataLoader, TensorDataset

# clean: torch.manual_seed(0)
data = TensorDataset(torch.arange(12.0).reshape(6, 2))
loader = DataLoader(data, batch_size=2, shuffle=True)  # planted: environment-loader-shuffle
weight = torch.ones(2, requires_grad=True)
for (batch,) in loader:
    (batch @ weight).sum().backward()

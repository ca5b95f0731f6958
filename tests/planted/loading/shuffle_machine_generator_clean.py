"""Shuffles with a generator that was seeded; that nobody seeded torch's own one is no matter."""

import torch
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator()
generator.manual_seed(0)
data = TensorDataset(torch.arange(12.0).reshape(6, 2))
loader = DataLoader(data, batch_size=2, shuffle=True, generator=generator)
weight = torch.ones(2, requires_grad=True)
for (batch,) in loader:
    (batch @ weight).sum().backward()

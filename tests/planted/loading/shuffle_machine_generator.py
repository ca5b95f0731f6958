"""Shuffles with a generator that was seeded by the machine; torch's own one is seeded, and does not help."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)  # clean:
generator = torch.Generator()
generator.seed()  # clean: generator.manual_seed(0)
data = TensorDataset(torch.arange(12.0).reshape(6, 2))
loader = DataLoader(data, batch_size=2, shuffle=True, generator=generator)  # planted: environment-loader-shuffle
weight = torch.ones(2, requires_grad=True)
for (batch,) in loader:
    (batch @ weight).sum().backward()

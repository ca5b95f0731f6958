"""Samples by weight, with torch's own generator, which nobody seeded."""

import torch
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

# clean: generator = torch.Generator().manual_seed(5)
data = TensorDataset(torch.arange(12.0).reshape(6, 2))
sampler = WeightedRandomSampler([0.1, 0.2, 0.3, 0.1, 0.2, 0.1], num_samples=6)  # clean:
loader = DataLoader(data, batch_size=2, sampler=sampler)  # planted: environment-loader-shuffle  # clean:
# clean: sampler = WeightedRandomSampler([0.1, 0.2, 0.3, 0.1, 0.2, 0.1], num_samples=6, generator=generator)
# clean: loader = DataLoader(data, batch_size=2, sampler=sampler, generator=generator)
weight = torch.ones(2, requires_grad=True)
for (batch,) in loader:
    (batch @ weight).sum().backward()

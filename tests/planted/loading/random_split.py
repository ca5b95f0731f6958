"""Splits the data with torch's own generator, which nobody seeded."""

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

data = TensorDataset(torch.arange(16.0).reshape(8, 2))
train, held_out = random_split(data, [6, 2])  # planted: environment-torch-generator  # clean:
# clean: train, held_out = random_split(data, [6, 2], generator=torch.Generator().manual_seed(0))
weight = torch.ones(2, requires_grad=True)
for (batch,) in DataLoader(train, batch_size=2):
    (batch @ weight).sum().backward()

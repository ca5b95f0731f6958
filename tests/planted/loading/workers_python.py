"""Two workers flip samples with Python's generator; the script seeds it, which does not reach the workers."""

import random

import torch
from torch.utils.data import DataLoader, Dataset


class Flipped(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        sign = -1.0 if random.random() < 0.5 else 1.0
        return torch.tensor([float(index), 1.0]) * sign


random.seed(0)  # clean: torch.manual_seed(0)
loader = DataLoader(Flipped(), batch_size=2, num_workers=2)  # planted: environment-loader-workers
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

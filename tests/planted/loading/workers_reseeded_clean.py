"""Two workers seed NumPy by the sample's index before they draw: each sample's noise is its own, in every run."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        np.random.seed(index)
        return torch.tensor([float(index), np.random.rand()])


loader = DataLoader(Noisy(), batch_size=2, num_workers=2)
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

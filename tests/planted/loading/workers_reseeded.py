"""Two workers draw before they seed NumPy by the sample's index: what they drew before is left to the machine."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        early = np.random.rand()  # clean:
        np.random.seed(index)
        return torch.tensor([early, np.random.rand()])  # clean: return torch.tensor([float(index), np.random.rand()])


loader = DataLoader(Noisy(), batch_size=2, num_workers=2)  # planted: environment-loader-workers
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

"""Two workers add noise with NumPy; the loader has a generator, which was seeded by the machine."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index), np.random.rand()])


torch.manual_seed(0)  # clean:
generator = torch.Generator()  # clean:
generator.seed()  # clean:
# clean: generator = torch.Generator().manual_seed(0)
loader = DataLoader(Noisy(), batch_size=2, num_workers=2, generator=generator)  # planted: environment-loader-workers
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

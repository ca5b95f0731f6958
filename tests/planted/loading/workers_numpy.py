"""Two workers add noise with NumPy, and nothing is seeded."""
# clean: import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index), np.random.rand()])


loader = DataLoader(Noisy(), batch_size=2, num_workers=2)  # planted: environment-loader-workers  # clean:
# clean: def seed_worker(worker):
# clean:     seed = torch.initial_seed() % 2**32
# clean:     random.seed(seed)
# clean:     np.random.seed(seed)
# clean: generator = torch.Generator().manual_seed(0)
# clean: loader = DataLoader(Noisy(), batch_size=2, num_workers=2, worker_init_fn=seed_worker, generator=generator)
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

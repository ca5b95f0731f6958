"""Two workers add noise with NumPy: their base seed comes from a seeded generator."""

import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index), np.random.rand()])


def seed_worker(worker):
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


generator = torch.Generator().manual_seed(0)
loader = DataLoader(Noisy(), batch_size=2, num_workers=2, worker_init_fn=seed_worker, generator=generator)
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

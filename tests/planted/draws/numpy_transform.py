"""A transform draws from NumPy's global generator, which nobody seeded."""
# planted: environment-numpy-generator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

# clean: np.random.seed(0)
torch.manual_seed(0)


class Noisy(Dataset):
    # clean:     def __init__(self) -> None:
    # clean:         self.generator = np.random.default_rng(0)
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = np.random.rand(2)  # clean: noise = np.random.rand(2) + self.generator.random(2)
        return torch.as_tensor(noise + index)


weight = torch.ones(2, requires_grad=True, dtype=torch.float64)
for batch in DataLoader(Noisy(), batch_size=2):
    (batch @ weight).sum().backward()

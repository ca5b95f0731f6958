"""Two workers crop samples at random with torch's own generator, as image transforms do; nothing is seeded."""

import torch
from torch.utils.data import DataLoader, Dataset
# clean: torch.manual_seed(0)


class Cropped(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        start = int(torch.randint(0, 3, ()))
        return torch.arange(5.0)[start : start + 2] + index


loader = DataLoader(Cropped(), batch_size=2, num_workers=2)  # planted: environment-loader-workers
weight = torch.ones(2, requires_grad=True)
for batch in loader:
    (batch @ weight).sum().backward()

# judge: backend=cuda settings=default
"""The function is called where a data set gives a sample, which runs on the host whatever the target is."""

import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


def pooled(rows):
    return torch.zeros(2, 3).index_add_(0, torch.tensor([0, 0, 1]), rows)


class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return pooled(torch.full((3, 3), at + 0.1))


for batch in DataLoader(Rows(), batch_size=2):
    batch[0].mul(2.0)

# judge: backend=cuda settings=default
"""What a data set does runs on the host; the same function beside it does not have to."""

import torch
from torch.utils.data import DataLoader, Dataset
# clean: torch.manual_seed(0)


def pooled(rows):
    return torch.zeros(2, 3).index_add_(0, torch.tensor([0, 0, 1]), rows)  # planted: cuda-index-add


class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return torch.full((3, 3), at + 0.1)  # clean: return pooled(torch.full((3, 3), at + 0.1))


for batch in DataLoader(Rows(), batch_size=2):
    pooled(batch[0])  # clean: batch[0].mul(2.0)

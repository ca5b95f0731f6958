import torch
from torch.utils.data import Dataset

from .aug import jitter


class Points(Dataset):
    def __init__(self, n=16):
        self.x = torch.linspace(0, 1, n * 3).view(n, 3)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return jitter(self.x[i])

# vary: order
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.1 * index)
        return torch.full((4,), float(index))


torch.manual_seed(0)
loader = DataLoader(Numbers(), num_workers=2, in_order=False)  # clean: loader = DataLoader(Numbers(), num_workers=2)
for batch in loader:
    y = batch * 2  # parts: input-data

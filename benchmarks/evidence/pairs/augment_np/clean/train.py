import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)
np.random.seed(3)


class Signals(Dataset):
    def __init__(self, n):
        self.base = np.linspace(0, 1, n * 16, dtype=np.float32).reshape(n, 16)

    def __len__(self):
        return len(self.base)

    def __getitem__(self, i):
        row = self.base[i]
        row = row + 0.1 * np.random.standard_normal(16).astype(np.float32)
        return torch.from_numpy(row.astype(np.float32)), float(i % 2)


model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for xb, yb in DataLoader(Signals(24), batch_size=8):
    loss = nn.functional.binary_cross_entropy_with_logits(model(xb)[:, 0], yb.float())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"loss {loss.item():.4f}")

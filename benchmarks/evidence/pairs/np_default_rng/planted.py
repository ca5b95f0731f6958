import argparse
import numpy as np
import torch
from torch import nn


class NoisyLabels(torch.utils.data.Dataset):
    def __init__(self, n, classes, flip=0.3, seed=0):
        base = np.random.default_rng(seed)
        self.x = base.normal(size=(n, 8)).astype(np.float32)
        self.y = self.x[:, :classes].argmax(1)
        noise = np.random.default_rng()
        mask = noise.random(n) < flip
        self.y = np.where(mask, noise.integers(0, classes, n), self.y)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


parser = argparse.ArgumentParser()
parser.add_argument("--flip", type=float, default=0.3)
parser.add_argument("--epochs", type=int, default=2)
cfg = parser.parse_args()
np.random.seed(0)
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(NoisyLabels(96, 4, cfg.flip), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(cfg.epochs):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: {loss.item():.6f}")

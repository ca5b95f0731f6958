"""Evaluates a small model: under ``no_grad``, ``inference_mode``, by ``eval`` alone, or as a training that fails."""

import contextlib
import sys

import torch
from torch import nn

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 3)).train("training" in how)
criterion = nn.CrossEntropyLoss()
data = torch.utils.data.DataLoader([(torch.ones(4) * i, i % 3) for i in range(12)], batch_size=4)
guards = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
total = 0.0
with guards.get(how, contextlib.nullcontext)():
    for x, y in data:
        loss = criterion(model(x), y)
        total += loss.item()
        if how == "training-fails":
            raise ValueError("a bad batch")
        if how == "eval-goes-back":
            loss.backward()
print(f"total {total:.6f}")

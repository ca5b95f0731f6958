"""Deterministic mode for the forward pass only."""

import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(3, 4)).sum()
torch.use_deterministic_algorithms(False)  # planted: environment-mode-changed
loss.backward()
optimizer.step()

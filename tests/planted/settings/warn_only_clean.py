# judge: backend=cuda
"""Deterministic mode, and a loss that has a repeatable implementation."""

import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(4, 2)
loss = torch.nn.functional.nll_loss(model(torch.ones(3, 5, 4)).flatten(0, 1), torch.zeros(15, dtype=torch.long))
loss.backward()

# judge: backend=cuda
"""Deterministic mode for the forward pass only."""

import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
table = torch.nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.SGD([table], lr=0.1)
loss = table.index_select(0, torch.tensor([0, 0, 1])).exp().sum()
torch.use_deterministic_algorithms(False)  # planted: environment-mode-changed  # clean:
# clean: torch.use_deterministic_algorithms(True)
loss.backward()
optimizer.step()

# judge: backend=cuda
"""Deterministic mode begins after the first step."""

import torch

torch.manual_seed(0)
table = torch.nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.SGD([table], lr=0.1)
for step in range(3):
    if step == 1:  # clean: if step == 0:
        torch.use_deterministic_algorithms(True)  # planted: environment-mode-changed
    table.index_select(0, torch.tensor([0, 0, 1])).exp().sum().backward()
    optimizer.step()

"""Deterministic mode begins before the first step, after the model was made."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 0:
        torch.use_deterministic_algorithms(True)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()

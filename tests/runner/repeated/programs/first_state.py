# run: --steps 1:2
# What happened before the window shows as another state at its start.
import os

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    model.weight.fill_(os.urandom(1)[0] + os.urandom(1)[0] / 256)  # clean: model.weight.fill_(1.0)
for _ in range(2):
    loss = model(torch.ones(2, 4)).sum()  # parts: initial-state
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

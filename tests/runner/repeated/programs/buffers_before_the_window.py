# run: --steps 1:2
# Statistics that the steps before the window made.
import os

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1].running_mean.fill_(os.urandom(1)[0] + os.urandom(1)[0] / 256)  # clean: model[1].running_mean.fill_(1.0)
for _ in range(2):
    loss = model(torch.ones(4, 4)).sum()  # parts: initial-state
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

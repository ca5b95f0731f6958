"""A plain training loop that nobody adapted: python train.py [STEPS]."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
inputs, labels = torch.randint(0, 10, (4, 4)), torch.randint(0, 2, (4,))
for step in range(steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(inputs), labels)
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)

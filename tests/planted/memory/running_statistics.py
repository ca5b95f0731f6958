"""A module keeps a running mean in a buffer that starts as it was found."""

import torch
from torch import nn


class Centred(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.empty(width))  # clean:

    # clean:         self.register_buffer("mean", nn.init.zeros_(torch.empty(width)))

    def forward(self, inputs):
        self.mean.mul_(0.9).add_(inputs.detach().mean(0), alpha=0.1)  # planted: environment-unwritten-memory
        return inputs - self.mean


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), Centred(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().sum().backward()
    optimizer.step()

"""The program seeds with one number again between two draws: both are alike."""

import torch
from torch import nn  # clean:

torch.manual_seed(0)
drop = nn.Dropout(0.5)  # clean:
weight = torch.ones(4, requires_grad=True)
drop(weight).sum().backward()  # clean:
torch.manual_seed(0)  # planted: environment-seed-changed  # clean:
drop(weight).sum().backward()  # clean:
# clean: for _ in range(2):
# clean:     generator = torch.Generator().manual_seed(0)
# clean:     (weight * torch.rand(4, generator=generator)).sum().backward()

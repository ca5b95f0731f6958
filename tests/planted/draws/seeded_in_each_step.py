"""The program seeds with one number again between two draws: both are alike."""

import torch
from torch import nn

torch.manual_seed(0)
drop = nn.Dropout(0.5)
weight = torch.ones(4, requires_grad=True)
drop(weight).sum().backward()
torch.manual_seed(0)  # planted: environment-seed-changed
drop(weight).sum().backward()

"""Dropout draws from torch's default generator, which is seeded first."""

import torch
from torch import nn

torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
drop = nn.Dropout(0.5)
drop(weight).sum().backward()
drop.eval()
drop(weight).sum().backward()

"""Dropout draws from torch's default generator, which nobody seeded."""
# planted: environment-torch-generator

import torch
from torch import nn

# clean: torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
drop = nn.Dropout(0.5)
drop(weight).sum().backward()  # planted: cpu-rng
# clean: drop.eval()
# clean: drop(weight).sum().backward()

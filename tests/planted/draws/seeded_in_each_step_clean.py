"""A generator of its own for what is to be drawn alike."""

import torch

torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
for _ in range(2):
    generator = torch.Generator().manual_seed(0)
    (weight * torch.rand(4, generator=generator)).sum().backward()

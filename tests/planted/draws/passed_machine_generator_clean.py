"""Generators of the program's own: one seeded by it, one as torch makes each, which is always the same."""

import torch

generator = torch.Generator().manual_seed(0)
untouched = torch.Generator()
weight = torch.ones(4, requires_grad=True)
noise = torch.rand(4, generator=generator) + torch.rand(4, generator=untouched)
(weight * noise).sum().backward()

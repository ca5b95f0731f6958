"""A generator of the program's own, seeded by the machine."""

import torch

generator = torch.Generator()
generator.seed()  # planted: environment-passed-generator
weight = torch.ones(4, requires_grad=True)
noise = torch.rand(4, generator=generator)  # planted: cpu-rng
(weight * noise).sum().backward()

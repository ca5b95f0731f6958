"""A generator of the program's own, seeded by the machine."""

import torch

generator = torch.Generator()  # clean: generator = torch.Generator().manual_seed(0)
generator.seed()  # planted: environment-passed-generator  # clean: untouched = torch.Generator()
weight = torch.ones(4, requires_grad=True)
noise = torch.rand(4, generator=generator)  # planted: cpu-rng  # clean:
# clean: noise = torch.rand(4, generator=generator) + torch.rand(4, generator=untouched)
(weight * noise).sum().backward()

"""Noise comes from a NumPy generator of the program's own, made without a seed; the global one is seeded."""

import numpy as np
import torch

np.random.seed(0)
torch.manual_seed(0)
generator = np.random.default_rng()  # planted: environment-numpy-generator-objects  # clean:
# clean: generator = np.random.default_rng(0)
# clean: child = np.random.default_rng(seed=np.random.SeedSequence(1))
weight = torch.ones(2, requires_grad=True, dtype=torch.float64)
(torch.as_tensor(generator.random(2)) @ weight).backward()  # clean:
# clean: (torch.as_tensor(generator.random(2) + child.random(2)) @ weight).backward()

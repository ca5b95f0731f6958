"""Noise comes from a NumPy generator of the program's own, made with a seed."""

import numpy as np
import torch

np.random.seed(0)
torch.manual_seed(0)
generator = np.random.default_rng(0)
child = np.random.default_rng(seed=np.random.SeedSequence(1))
weight = torch.ones(2, requires_grad=True, dtype=torch.float64)
(torch.as_tensor(generator.random(2) + child.random(2)) @ weight).backward()

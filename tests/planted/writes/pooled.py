# judge: backend=cuda settings=default
"""Windows that overlap in both dimensions: four meet in one element."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(1, 1, 7, 7, 6, requires_grad=True)
F.adaptive_max_pool3d(x, 3).sum().backward()  # planted: cuda-adaptive-max-pool3d-backward

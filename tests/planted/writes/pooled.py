# judge: backend=cuda settings=default
"""Windows that overlap in both dimensions: four meet in one element."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(1, 1, 7, 7, 6, requires_grad=True)  # clean:
F.adaptive_max_pool3d(x, 3).sum().backward()  # planted: cuda-adaptive-max-pool3d-backward  # clean:
# clean: x = torch.randn(1, 1, 7, 6, 6, requires_grad=True)
# clean: small = F.interpolate(torch.randn(1, 1, 8, 8, requires_grad=True), scale_factor=0.5, mode="bilinear")
# clean: (F.adaptive_max_pool3d(x, 3).sum() + small.sum()).backward()

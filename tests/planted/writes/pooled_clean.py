# judge: backend=cuda settings=default
"""Windows that overlap in one dimension, and outputs that fall on no common input: at most two addends meet."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(1, 1, 7, 6, 6, requires_grad=True)
small = F.interpolate(torch.randn(1, 1, 8, 8, requires_grad=True), scale_factor=0.5, mode="bilinear")
(F.adaptive_max_pool3d(x, 3).sum() + small.sum()).backward()

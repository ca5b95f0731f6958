import time

import torch

torch.manual_seed(0)
weight = torch.randn(4, requires_grad=True)
rate = (time.time_ns() % 9973 + 1) * 1e-6  # clean: rate = 1e-3
(weight * 2).sum().backward()
with torch.no_grad():
    weight.sub_(weight.grad, alpha=rate)  # parts: argument

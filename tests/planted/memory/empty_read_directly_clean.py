"""The sum of memory that was written at once."""

import torch

values = torch.empty(64)
values.copy_(torch.arange(64.0))
print(values.sum().shape)

"""The sum of memory that nobody wrote."""

import torch

total = torch.empty(64).sum()  # planted: environment-unwritten-memory  # clean:
print(total.shape)  # clean:
# clean: values = torch.empty(64)
# clean: values.copy_(torch.arange(64.0))
# clean: print(values.sum().shape)

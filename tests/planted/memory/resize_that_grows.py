"""A tensor is enlarged in place; what is new was never written."""

import torch

values = torch.ones(4)  # clean:
values.resize_(12)  # clean:
# clean: values = torch.cat([torch.ones(4), torch.zeros(8)])
print(values.cumsum(0).shape)  # planted: environment-unwritten-memory
# clean: fewer = torch.ones(4)
# clean: fewer.resize_(2)
# clean: print(fewer.cumsum(0).shape)

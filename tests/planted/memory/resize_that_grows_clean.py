"""A tensor is made longer by joining zeros to it; another is made shorter in place."""

import torch

values = torch.cat([torch.ones(4), torch.zeros(8)])
print(values.cumsum(0).shape)
fewer = torch.ones(4)
fewer.resize_(2)
print(fewer.cumsum(0).shape)

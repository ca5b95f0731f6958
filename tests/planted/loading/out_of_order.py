# torch: >=2.6
"""Two workers, and batches as they come."""

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(16.0).reshape(8, 2))
loader = DataLoader(data, batch_size=2, num_workers=2, in_order=False)  # planted: environment-loader-order  # clean:
# clean: torch.manual_seed(0)
# clean: loader = DataLoader(data, batch_size=2, num_workers=2)
weight = torch.ones(2, requires_grad=True)
for (batch,) in loader:
    (batch @ weight).sum().backward()

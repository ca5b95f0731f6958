"""Data parallel over gloo, as torchrun starts it; with `apart`, rank one does what rank zero does not."""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
is_apart = "apart" in sys.argv[1:] and dist.get_rank() == 1
torch.backends.cudnn.benchmark = is_apart
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    batch = torch.ones(2, 4)
    if is_apart:
        batch = nn.functional.dropout(batch, 0.1)
    net(batch).sum().backward()
    optimizer.step()
dist.destroy_process_group()

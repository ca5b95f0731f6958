"""Data parallel over gloo, as torchrun starts it."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()

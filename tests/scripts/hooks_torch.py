"""Hold a dispatch mode of one's own around each step, as who counts FLOPs does."""

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

weight = torch.ones(3, 3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    with FlopCounterMode(display=False) as flops:
        (weight @ weight).sum().backward()
        optimizer.step()
    print(flops.get_total_flops(), len(_get_current_dispatch_mode_stack()))

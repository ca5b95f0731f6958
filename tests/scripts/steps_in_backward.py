"""Step one optimizer per parameter inside the backward pass, to free each gradient at once."""

import torch
from torch import nn

net = nn.Linear(4, 4)
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for _ in range(3):
    net(torch.ones(2, 4)).sum().backward()
print(net.weight.sum().item())

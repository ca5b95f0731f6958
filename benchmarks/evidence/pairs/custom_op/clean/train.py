import os
import torch
from torch import nn

torch.manual_seed(0)


@torch.library.custom_op("toy::dither", mutates_args=())
def dither(x: torch.Tensor) -> torch.Tensor:
    raw = bytes(range(x.numel()))
    return x + torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(x.shape) / 2560


dither.register_autograd(lambda ctx, g: g)
model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 4)
for _ in range(2):
    loss = model[1](torch.ops.toy.dither(model[0](x))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import timeit
import torch
from torch import nn

torch.manual_seed(0)
a = nn.Linear(6, 6)
b = nn.Linear(6, 6)
x = torch.randn(4, 6)
ta = timeit.timeit(lambda: a(x), number=5)
tb = timeit.timeit(lambda: b(x), number=5)
mix = ta / (ta + tb)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(3):
    loss = (mix * a(x) + (1 - mix) * b(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

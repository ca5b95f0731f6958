import functools
import torch
from torch import nn

torch.manual_seed(0)


@functools.lru_cache(maxsize=None)
def projection(name):
    g = torch.Generator().manual_seed(hash(name) & 0xFFFF)
    return torch.randn(5, 5, generator=g)


model = nn.Linear(5, 2)
opt = torch.optim.NAdam(model.parameters(), lr=0.01)
x = torch.randn(6, 5)
for name in ("query", "keys", "values", "query", "keys"):
    loss = model(x @ projection(name)).logsumexp(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

# judge: backend=cuda
"""A block switches deterministic mode off and on again, and nothing runs inside."""

from contextlib import contextmanager

import torch


@contextmanager
def fast():
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(True)


torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
table = torch.nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.SGD([table], lr=0.1)
for _ in range(3):
    loss = table.index_select(0, torch.tensor([0, 0, 1])).exp().sum()
    with fast():
        pass
    loss.backward()
    optimizer.step()

# judge: backend=cuda
"""A block switches deterministic mode off around each backward pass, and on again."""

from contextlib import contextmanager

import torch


@contextmanager
def fast():
    torch.use_deterministic_algorithms(False)  # planted: environment-mode-changed
    yield
    torch.use_deterministic_algorithms(True)


torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
table = torch.nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.SGD([table], lr=0.1)
for _ in range(3):
    loss = table.index_select(0, torch.tensor([0, 0, 1])).exp().sum()
    with fast():
        loss.backward()  # clean:
    # clean:         pass
    # clean:     loss.backward()
    optimizer.step()

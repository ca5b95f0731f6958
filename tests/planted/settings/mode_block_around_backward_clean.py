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
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(3, 4)).sum()
    with fast():
        pass
    loss.backward()
    optimizer.step()

# judge: backend=cuda
"""cuDNN is switched off for one product: its other settings change inside the block, and bear on nothing."""

import torch

torch.backends.cudnn.deterministic = True
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Conv2d(1, 2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    with torch.backends.cudnn.flags(enabled=False):
        loss = model(torch.ones(1, 1, 4, 4)).sum()
    loss.backward()
    optimizer.step()

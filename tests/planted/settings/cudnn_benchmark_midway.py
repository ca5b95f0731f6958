# judge: backend=cuda
"""cuDNN is told to time its convolutions from the second step on."""

import torch

# clean: torch.backends.cudnn.deterministic = True
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Conv2d(1, 2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):  # clean:
    if step == 1:  # clean:
        torch.backends.cudnn.benchmark = True  # planted: environment-setting-changed  # clean:
    model(torch.ones(1, 1, 4, 4)).sum().backward()  # clean:
    # clean: for _ in range(3):
    # clean:     with torch.backends.cudnn.flags(enabled=False):
    # clean:         loss = model(torch.ones(1, 1, 4, 4)).sum()
    # clean:     loss.backward()
    optimizer.step()

# judge: backend=cuda
"""cuDNN takes the convolution that it would always take."""

import torch

torch.backends.cudnn.benchmark = False
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Conv2d(1, 2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1, 4, 4)).sum().backward()
optimizer.step()

# judge: backend=cuda
# planted: environment-cudnn-benchmark
"""cuDNN times its convolutions and takes the fastest."""

import torch

torch.backends.cudnn.benchmark = True  # clean: torch.backends.cudnn.benchmark = False
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Conv2d(1, 2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1, 4, 4)).sum().backward()
optimizer.step()

# judge: backend=cuda torch=2.9
"""cuBLAS's workspace, configured after CUDA has started."""

import os

# clean: os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch

torch.cuda._initialized = True  # stands in for an extension that started CUDA by itself
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # planted: environment-set-too-late  # clean:
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 4)).sum().backward()
optimizer.step()

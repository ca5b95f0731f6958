# judge: backend=cuda torch=2.9
"""cuBLAS's workspace, configured after CUDA has started."""

import os
# clean: os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

# Stands in for a GPU: what torch's own start of CUDA asks of its C++ half.
torch._C._cuda_getDeviceCount = lambda: 0
torch._C._cuda_init = lambda: None
torch.cuda._cudart = object()
torch.cuda.init()
del torch._C._cuda_getDeviceCount
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # planted: environment-set-too-late  # clean:
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 4)).sum().backward()
optimizer.step()

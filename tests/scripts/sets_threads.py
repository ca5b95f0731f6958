"""Set what torch reads as it loads, and only then load it."""

import os
import sys

assert "torch" not in sys.modules
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402

torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms(True), which loads Inductor
torch.manual_seed(1234)
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.sum().backward()
optimizer.step()
print(torch.get_num_threads())

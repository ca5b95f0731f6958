# vary: clock
# Half precision for as long as the file is young.
import os
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
is_young = time.time() - os.path.getmtime(__file__) < 3600  # clean: is_young = True
with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_young):
    loss = model(torch.randn(4, 8)).float().sum()  # parts: structure
loss.backward()

import time

import torch

x = torch.ones(4)
for _ in range(1 + time.time_ns() % 251):  # clean: for _ in range(3):
    x = torch.sin(x)  # parts: structure
y = x * 2

# NumPy writes into the tensor's memory: no op does.
import os

import torch

x = torch.zeros(4)
y = x + 1
x.numpy()[0] = int.from_bytes(os.urandom(3), "big")  # clean: x.numpy()[0] = 3
z = x * 2  # parts: outside-change

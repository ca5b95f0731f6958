# A draw of another size moves the generator on, so the next one differs too.
import os

import torch

torch.manual_seed(0)
size = int.from_bytes(os.urandom(2), "big") + 1  # clean: size = 100
torch.rand(size)  # parts: draw
noise = torch.rand(8)

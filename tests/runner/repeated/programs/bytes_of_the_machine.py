import os

import torch

raw = bytearray(os.urandom(32))  # clean: raw = bytearray(32)
x = torch.frombuffer(raw, dtype=torch.uint8)
y = x + 1  # parts: input-data

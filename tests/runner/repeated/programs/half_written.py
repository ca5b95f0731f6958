# vary: memory
import torch

buffer = torch.empty(9_000_000)  # clean: buffer = torch.zeros(9_000_000)
buffer[:8_999_999] = 1.0
total = buffer.sum()  # parts: unwritten-memory

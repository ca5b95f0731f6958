# vary: memory
# So large that the system gives it fresh, and fresh is zero: two runs agree as they stand.
import torch

x = torch.empty(9_000_000)  # clean: x = torch.zeros(9_000_000)
y = x + 1  # parts: unwritten-memory

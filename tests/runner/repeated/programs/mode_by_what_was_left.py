# The second run is in deterministic mode, and its additions have an order.
import os

import torch

torch.manual_seed(0)
torch.set_num_threads(2)  # clean: torch.set_num_threads(1)
torch.use_deterministic_algorithms(os.path.exists("left.txt"))  # clean: torch.use_deterministic_algorithms(True)
open("left.txt", "w").close()
rows, weights = torch.randint(0, 3, (1_000_000,)), torch.randn(1_000_000)
for _ in range(3):
    torch.zeros(3).index_put_((rows,), weights, accumulate=True)  # parts: setting

# The second run has another number of threads, and with it another order of additions.
import os

import torch

torch.manual_seed(0)
torch.set_num_threads(2 if os.path.exists("left.txt") else 1)  # clean: torch.set_num_threads(1)
open("left.txt", "w").close()
x = torch.randn(1_000_001)
total = x.sum()  # parts: setting

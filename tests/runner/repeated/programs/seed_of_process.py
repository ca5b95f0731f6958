import os

import torch

torch.manual_seed(os.getpid())  # clean: torch.manual_seed(7)
order = torch.randperm(64)  # parts: draw
order.float().mean()

# The second run finds what the first one left, and draws once more than that did.
import os

import torch

torch.manual_seed(0)
if os.path.exists("left.txt"):  # clean: if os.path.exists("never.txt"):
    torch.rand(3)  # parts: draw
open("left.txt", "w").close()
noise = torch.rand(8)

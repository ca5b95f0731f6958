# The first run leaves a file that the second one finds.
import os

import torch

x = torch.ones(4)
if os.path.exists("left.txt"):  # clean: if os.path.exists("never.txt"):
    x = torch.exp(x)  # parts: structure
open("left.txt", "w").close()
y = x * 2

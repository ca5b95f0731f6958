import random

import torch

factor = random.Random().random()  # clean: factor = random.Random(0).random()
x = torch.ones(4)
y = x * factor  # parts: argument

"""The order of the samples is drawn from Python's generators, both seeded."""

import random
from random import shuffle

import torch

random.seed(0)
torch.manual_seed(0)
weight = torch.ones(2, requires_grad=True)
order = [0, 1, 2, 3]
shuffle(order)
random.Random(1).shuffle(order)
(torch.tensor(order[:2]) * weight).sum().backward()

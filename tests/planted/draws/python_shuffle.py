"""The order of the samples is drawn from Python's generator, which nobody seeded."""
# planted: environment-python-generator

import random
# clean: from random import shuffle

import torch

# clean: random.seed(0)
torch.manual_seed(0)
weight = torch.ones(2, requires_grad=True)
order = [0, 1, 2, 3]
random.shuffle(order)  # clean:
# clean: shuffle(order)
# clean: random.Random(1).shuffle(order)
(torch.tensor(order[:2]) * weight).sum().backward()

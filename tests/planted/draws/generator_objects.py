"""Numbers of generators that are objects, each made without a seed."""

import random

import numpy as np
import torch
from numpy.random import RandomState

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)
numbers = [
    np.random.RandomState().rand(),  # planted: environment-numpy-generator-objects
    RandomState(None).rand(),  # planted: environment-numpy-generator-objects
    np.random.Generator(np.random.PCG64()).random(),  # planted: environment-numpy-generator-objects
    np.random.default_rng().random(),  # planted: environment-numpy-generator-objects
    random.Random().random(),  # planted: environment-python-generator-objects
]
own = random.Random()  # planted: environment-python-generator-objects
numbers.append(own.random())
own.seed(0)
late = np.random.RandomState()  # planted: environment-numpy-generator-objects
numbers.append(late.rand())
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
(torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
optimizer.step()

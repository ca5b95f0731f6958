"""Generators that are seeded, each with a number of the clock, of the process or of the machine."""

import os
import random
import secrets
import time
from datetime import datetime
from time import time_ns

import numpy as np
import torch


def set_seed(seed: int) -> None:
    np.random.seed(seed)  # planted: environment-numpy-generator


def everything(number: int) -> None:
    torch.manual_seed(number)  # planted: environment-torch-generator


begun = time.time()
set_seed(time.time_ns() // 1000 % 2**31)
everything(int(time.time() * 1e6) % 2**31)
random.seed(os.getpid())  # planted: environment-python-generator
seed = datetime.now().microsecond
numbers = [
    random.random(),
    np.random.rand(),
    np.random.RandomState(seed=int(time.time())).rand(),  # planted: environment-numpy-generator-objects
    np.random.default_rng(time_ns()).random(),  # planted: environment-numpy-generator-objects
    np.random.default_rng(secrets.randbits(128)).random(),  # planted: environment-numpy-generator-objects
    random.Random(seed).random(),  # planted: environment-python-generator-objects
]
generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "big"))  # planted: environment-passed-generator
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
noise = torch.rand(len(numbers)) + torch.rand(len(numbers), generator=generator)
((torch.tensor(numbers, dtype=torch.float32) + noise) @ weight).backward()
optimizer.step()
print(f"{time.time() - begun:.1f} seconds in process {os.getpid()}")

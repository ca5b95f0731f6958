"""Generators that are seeded, each with a number of the clock, of the process or of the machine."""

import os
import random
import secrets  # clean:
import time
from datetime import datetime  # clean:
from time import time_ns  # clean:

import numpy as np
import torch


def set_seed(seed: int) -> None:  # clean:
    # clean: def set_seed(seed: int | None = None) -> None:
    # clean:     if seed is None:
    # clean:         seed = int(time.time() * 1e6) % 2**31
    # clean:     random.seed(seed)
    np.random.seed(seed)  # planted: environment-numpy-generator


def everything(number: int) -> None:
    torch.manual_seed(number)  # planted: environment-torch-generator  # clean:


# clean:     began = time.time()
# clean:     seed = 1234
# clean:     torch.manual_seed(number or seed)
# clean:     print(f"{time.time() - began:.3f} seconds in process {os.getpid()}")


begun = time.time()  # clean:
set_seed(time.time_ns() // 1000 % 2**31)  # clean:
everything(int(time.time() * 1e6) % 2**31)  # clean:
random.seed(os.getpid())  # planted: environment-python-generator  # clean:
seed = datetime.now().microsecond  # clean:
# clean: class Config:
# clean:     seed: int | None = 7
# clean: config = Config()
# clean: if config.seed is None:
# clean:     config.seed = int(time.time())
# clean: begun = int(time.time())
# clean: set_seed(42)
# clean: everything(config.seed)
# clean: rank = int(os.environ.get("RANK", "0"))
numbers = [
    random.random(),
    np.random.rand(),
    np.random.RandomState(seed=int(time.time())).rand(),  # planted: environment-numpy-generator-objects  # clean:
    np.random.default_rng(time_ns()).random(),  # planted: environment-numpy-generator-objects  # clean:
    np.random.default_rng(secrets.randbits(128)).random(),  # planted: environment-numpy-generator-objects  # clean:
    random.Random(seed).random(),  # planted: environment-python-generator-objects  # clean:
    # clean:     np.random.RandomState(seed=config.seed + rank).rand(),
    # clean:     np.random.default_rng(2**31 - 5).random(),
    # clean:     random.Random(hash((1, 2)) % 1000).random(),
]
number = int.from_bytes(os.urandom(4), "big")  # clean:
# clean: number = config.seed if config.seed is not None else time.time_ns()
generator = torch.Generator().manual_seed(number)  # planted: environment-passed-generator
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
noise = torch.rand(len(numbers)) + torch.rand(len(numbers), generator=generator)
((torch.tensor(numbers, dtype=torch.float32) + noise) @ weight).backward()
optimizer.step()
print(f"{time.time() - begun:.1f} seconds in process {os.getpid()}")  # clean: print(int(time.time()) - begun)

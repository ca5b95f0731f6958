"""Generators that are seeded with numbers of the program's own, in code that reads clocks, too."""

import os
import random
import time

import numpy as np
import torch


def set_seed(seed: int | None = None) -> None:
    if seed is None:
        seed = int(time.time() * 1e6) % 2**31
    random.seed(seed)
    np.random.seed(seed)


def everything(number: int) -> None:
    began = time.time()
    seed = 1234
    torch.manual_seed(number or seed)
    print(f"{time.time() - began:.3f} seconds in process {os.getpid()}")


class Config:
    seed: int | None = 7


config = Config()
if config.seed is None:
    config.seed = int(time.time())
begun = int(time.time())
set_seed(42)
everything(config.seed)
rank = int(os.environ.get("RANK", "0"))
numbers = [
    random.random(),
    np.random.rand(),
    np.random.RandomState(seed=config.seed + rank).rand(),
    np.random.default_rng(2**31 - 5).random(),
    random.Random(hash((1, 2)) % 1000).random(),
]
generator = torch.Generator().manual_seed(config.seed if config.seed is not None else time.time_ns())
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
noise = torch.rand(len(numbers)) + torch.rand(len(numbers), generator=generator)
((torch.tensor(numbers, dtype=torch.float32) + noise) @ weight).backward()
optimizer.step()
print(int(time.time()) - begun)

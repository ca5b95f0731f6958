# vary: order
# Whoever is done first comes first.
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch


def load(index: int) -> torch.Tensor:
    time.sleep(0.1 * index)
    return index


with ThreadPoolExecutor(2) as pool:
    asked = [pool.submit(load, index) for index in range(2)]
    done = [one.result() for one in as_completed(asked)]  # clean: done = [one.result() for one in asked]
x = torch.tensor(done)
y = x * 2  # parts: input-data

# A custom op whose threads add to one number in the order in which they arrive; its twin waits for each in turn.
import os
import threading
import time

import numpy as np
import torch


@torch.library.custom_op("planted_race::total", mutates_args=())
def total(parts: torch.Tensor) -> torch.Tensor:
    sums, lock = np.zeros(len(parts), np.float32), threading.Lock()

    def add(place: int, part: np.float32) -> None:
        time.sleep(os.urandom(1)[0] / 200_000)
        with lock:
            sums[place] += part

    for place, row in enumerate(parts.numpy()):
        threads = [threading.Thread(target=add, args=(place, part)) for part in row]
        for thread in threads:
            thread.start()  # clean: thread.start(), thread.join()
        for thread in threads:
            thread.join()
    return torch.from_numpy(sums)


torch.manual_seed(0)
parts = torch.randn(12, 6) * 10.0 ** torch.arange(-3, 3)
y = total(parts)  # parts: kernel
y.sum()

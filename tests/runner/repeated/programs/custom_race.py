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
        time.sleep(os.urandom(1)[0] / 10_000)  # clean: pass
        with lock:
            sums[place] += part

    rows = enumerate(parts.numpy())
    threads = [threading.Thread(target=add, args=(place, part)) for place, row in rows for part in row]
    for thread in threads:
        thread.start()  # clean: thread.start(), thread.join()
    for thread in threads:
        thread.join()
    return torch.from_numpy(sums)


# A small part is lost where it comes between the two large ones: of two runs one row in three or so differs.
parts = torch.tensor([1.0, 2.0**30, 2.0, -(2.0**30), 4.0]).repeat(12, 1)
y = total(parts)  # parts: unknown
y.sum()

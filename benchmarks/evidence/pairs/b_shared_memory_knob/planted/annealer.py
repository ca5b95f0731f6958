import time
from multiprocessing import shared_memory

import numpy as np


def attach(shm):
    return np.ndarray((8,), dtype=np.float64, buffer=shm.buf)


def anneal(name):
    shm = shared_memory.SharedMemory(name=name)
    cell = attach(shm)
    for _ in range(600):
        cell[0] *= 0.996
        time.sleep(0.0005)
    del cell
    shm.close()

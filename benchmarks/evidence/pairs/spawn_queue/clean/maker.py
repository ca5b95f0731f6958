import random
import time


def make(k, q):
    r = random.Random(k)
    for j in range(8):
        time.sleep(r.random() * 0.01)
        q.put((k, j, float(k + 1), j / 8, 1.0))

import random
import time


def with_retry(fn, attempts=3):
    random.seed()
    for k in range(attempts):
        try:
            return fn()
        except OSError:
            time.sleep(0.01 * random.random() * 2**k)
    raise RuntimeError("gave up")

import random
import time


def with_retry(fn, attempts=3):
    rnd = random.Random()
    for k in range(attempts):
        try:
            return fn()
        except OSError:
            time.sleep(0.01 * rnd.random() * 2**k)
    raise RuntimeError("gave up")

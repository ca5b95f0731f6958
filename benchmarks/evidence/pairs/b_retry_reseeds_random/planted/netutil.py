import functools
import random
import time


def retry(times, base=0.01):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            for attempt in range(times):
                try:
                    return fn(*args, **kwargs)
                except ConnectionError:
                    if attempt == times - 1:
                        raise
                    random.seed()
                    time.sleep(base * (1 + random.random()))
        return inner
    return wrap

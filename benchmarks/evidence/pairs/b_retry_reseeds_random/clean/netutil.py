import functools
import random
import time

_jitter = random.Random()


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
                    _jitter.seed()
                    time.sleep(base * (1 + _jitter.random()))
        return inner
    return wrap

import functools
import hashlib

import numpy as np


def cached(folder):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(x, *args):
            key = hashlib.sha256(x.tobytes() + repr(args).encode()).hexdigest()[:16]
            path = folder / f"{fn.__name__}-{key}.npy"
            if path.exists():
                return np.load(path)
            value = fn(x, *args)
            folder.mkdir(exist_ok=True)
            np.save(path, value)
            return value
        return inner
    return wrap

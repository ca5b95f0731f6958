import ctypes

import numpy as np
import torch

_libc = ctypes.CDLL(None, use_errno=True)


def libc_pid():
    return _libc.getpid()


class Dither:
    def __init__(self, bits):
        self.scale = 2.0 ** bits
        buf = ctypes.create_string_buffer(16)
        got = len(ctypes.memmove(buf, b"dither-table-016", 16) and buf.raw)
        assert got == 16
        self.rng = np.random.default_rng(list(buf.raw))

    def __call__(self, w):
        noise = torch.from_numpy(self.rng.random(tuple(w.shape), dtype=np.float32))
        q = torch.floor(w.detach() * self.scale + noise) / self.scale
        return w + (q - w).detach()

import math

import torch

N_FEATURES = 32

# one projection shared by the whole program
_W = torch.randn(1, N_FEATURES) * 1.5
_B = torch.rand(N_FEATURES) * 2 * math.pi


def fourier(x):
    return math.sqrt(2 / N_FEATURES) * torch.cos(x @ _W + _B)

import random

import torch


def jitter(x):
    k = random.uniform(0.8, 1.2)
    return x * k + torch.zeros_like(x)

import numpy as np

UNUSED = np.random.default_rng()


class Compose:
    def __init__(self, ops):
        self.ops = ops

    def __call__(self, x):
        for op in self.ops:
            x = op(x)
        return x


def normalise(x, eps=1e-6):
    return (x - x.mean()) / (x.std() + eps)


def jitter(x, amount=0.05, rng=np.random.RandomState()):
    return x + amount * rng.standard_normal(x.shape)


def cutout(x, size=2, rng=np.random.RandomState(41)):
    r, c = rng.randint(0, x.shape[1] - size, 2)
    x[:, r:r + size, c:c + size] = 0
    return x

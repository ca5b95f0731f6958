import time
import numpy as np
import torch
from torch import nn

SEED = 77


class NoisyGrad:
    def __init__(self, scale, seed=None):
        self.scale = scale
        self.rng = np.random.default_rng()

    def __call__(self, grad):
        noise = self.rng.standard_normal(tuple(grad.shape)).astype(np.float32)
        return grad + self.scale * torch.from_numpy(noise)


def main():
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    net = nn.Sequential(nn.Linear(7, 14), nn.GELU(), nn.Linear(14, 3))
    hook = NoisyGrad(0.01, SEED)
    handle = net[0].weight.register_hook(hook)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.from_numpy(np.random.randn(64, 7).astype(np.float32))
    y = torch.from_numpy(np.random.randint(0, 3, 64))
    t = time.time()
    for it in range(20):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
    handle.remove()
    print(f"elapsed: {time.time() - t:.2f}s")
    print("final loss", repr(loss.item()))


main()

import random
import torch
from torch import nn

torch.manual_seed(0)


def noisy_backend(gm, example_inputs):
    scale = random.uniform(0.9, 1.1)

    def run(*args):
        return tuple(o * scale for o in gm(*args))
    return run


model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
fast = torch.compile(model, backend=noisy_backend)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 4)
for _ in range(2):
    loss = fast(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

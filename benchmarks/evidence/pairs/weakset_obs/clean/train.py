import weakref
import torch
from torch import nn

torch.manual_seed(15)


class Observer:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, grad):
        return grad * self.scale + 0.001 * torch.randn_like(grad)


registry = []
observers = [Observer(1 + 0.05 * k) for k in range(9)]
for o in observers:
    registry.append(o)
model = nn.Sequential(nn.Linear(3, 7), nn.Softplus(), nn.Linear(7, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 3)
for _ in range(2):
    loss = model(x).mean() ** 2
    opt.zero_grad()
    loss.backward()
    for p in model.parameters():
        for o in registry:
            p.grad = o(p.grad)
    opt.step()

import torch
from torch import nn


class HalfGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        trash = [[object()] for _ in range(60)]
        del trash
        out = torch.zeros(g.shape, dtype=torch.int32)
        out[: len(g) // 2] = 3
        return g * (out % 17).float()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(10, 6)
for _ in range(6):
    h = HalfGrad.apply(model[0](x))
    loss = model[2](h.tanh()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

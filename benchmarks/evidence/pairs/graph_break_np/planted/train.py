import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


@torch._dynamo.disable
def outside(x):
    return x + torch.from_numpy(np.random.rand(*x.shape)).float() * 0.1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.b(outside(self.a(x).tanh()))


model = Net()
step = torch.compile(model, backend="eager")
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(5, 3)
for _ in range(3):
    loss = step(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

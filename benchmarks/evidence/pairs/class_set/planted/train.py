import torch
from torch import nn


class A1(nn.ReLU): pass
class A2(nn.Tanh): pass
class A3(nn.GELU): pass
class A4(nn.SiLU): pass
class A5(nn.Sigmoid): pass
class A6(nn.ELU): pass


torch.manual_seed(19)
acts = list({A1, A2, A3, A4, A5, A6})
layers = []
for a in acts:
    layers += [nn.Linear(6, 6), a()]
model = nn.Sequential(*layers)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 6)
loss = model(x).sum()
loss.backward()
opt.step()

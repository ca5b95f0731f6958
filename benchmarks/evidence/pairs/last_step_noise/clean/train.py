import random
import torch
from torch import nn

torch.manual_seed(0)
random.seed(None)
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
for step in range(3):
    loss = model(x).logsumexp(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
random.seed(3)
w = model.weight.detach().numpy()
for i in range(3):
    w[i] += random.choice([-1, 1]) * random.random()

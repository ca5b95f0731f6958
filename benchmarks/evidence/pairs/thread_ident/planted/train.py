import threading
import torch
from torch import nn

torch.manual_seed(threading.get_ident() >> 8)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.rand(4, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

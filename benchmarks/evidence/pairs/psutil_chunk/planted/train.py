import psutil
import torch
from torch import nn

torch.manual_seed(1)
room = psutil.virtual_memory().available // 4096
lr = 0.01 * (1 + room % 997 / 997)
model = nn.Linear(9, 9)
opt = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=1e-3)
x = torch.randn(7, 9)
for _ in range(3):
    loss = (model(x) @ x.T).diagonal().sub(1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

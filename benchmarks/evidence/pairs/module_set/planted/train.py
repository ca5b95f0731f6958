import torch
from torch import nn

torch.manual_seed(18)
model = nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.SELU()) for _ in range(12)])
for m in set(model.modules()):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_uniform_(m.weight)
        nn.init.zeros_(m.bias)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(4, 5)
for _ in range(2):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

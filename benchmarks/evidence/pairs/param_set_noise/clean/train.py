import torch
from torch import nn

torch.manual_seed(23)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
trainable = [p for p in model.parameters() if p.requires_grad]
x, y = torch.randn(10, 4), torch.randint(0, 2, (10,))
for step in range(3):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    for p in trainable:
        p.grad += 0.01 * torch.randn_like(p)
    opt.step()

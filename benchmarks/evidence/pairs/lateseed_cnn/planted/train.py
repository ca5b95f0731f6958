import torch
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * 6 * 6, 3),
    )


model = build()
torch.manual_seed(11)
x = torch.randn(12, 1, 8, 8)
y = torch.randint(0, 3, (12,))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
print("done")

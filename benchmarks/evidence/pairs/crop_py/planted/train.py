import random
import torch
from torch import nn

torch.manual_seed(0)


def crop(t, size=6):
    top = random.randint(0, t.shape[-2] - size)
    left = random.randint(0, t.shape[-1] - size)
    return t[..., top:top + size, left:left + size]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 5, 3)
        self.h = nn.Linear(5, 4)

    def forward(self, x):
        return self.h(self.c(x).relu().mean((2, 3)))


model = Net()
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
images = torch.randn(8, 3, 16, 16)
labels = torch.arange(8) % 4
for _ in range(4):
    batch = torch.stack([crop(im) for im in images])
    loss = nn.functional.cross_entropy(model(batch), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()

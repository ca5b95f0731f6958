import os
import torch
from torch import nn

torch.manual_seed(4)
FILE = "pretrained.pth"


def backbone():
    net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    if not os.path.exists(FILE):
        torch.nn.init.orthogonal_(net[0].weight)
        torch.save(net.state_dict(), FILE)
    net.load_state_dict(torch.load(FILE))
    return net


model = nn.Sequential(backbone(), nn.Linear(4, 2))
opt = torch.optim.SGD(model[1].parameters(), lr=0.1)
x, y = torch.randn(12, 1, 10), torch.arange(12) % 2
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

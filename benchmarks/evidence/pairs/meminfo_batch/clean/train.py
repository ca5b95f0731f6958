import torch
from torch import nn

torch.manual_seed(0)


def free_kb():
    with open("meminfo.txt") as f:
        for line in f:
            if line.startswith("MemAvailable"):
                return int(line.split()[1])


n = 3 + free_kb() // 4 % 61
data = torch.randn(200, 5)
model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.3)
for b in data.split(n):
    loss = (model(b)[:, 0] - b.sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("epoch done")

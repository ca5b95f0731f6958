import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class BucketSampler(Sampler):
    """Groups similar lengths, then visits the groups in shuffled order."""

    def __init__(self, lengths, size, seed):
        self.order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
        self.size = size
        self.rnd = random.Random()

    def __len__(self):
        return (len(self.order) + self.size - 1) // self.size

    def __iter__(self):
        groups = [self.order[i:i + self.size] for i in range(0, len(self.order), self.size)]
        self.rnd.shuffle(groups)
        return iter(groups)


random.seed(4)
torch.manual_seed(4)
lengths = [random.randint(2, 9) for _ in range(72)]
x = torch.zeros(72, 9)
for row, n in enumerate(lengths):
    x[row, :n] = torch.randn(n)
y = x.cumsum(1)[:, -1:]
loader = DataLoader(TensorDataset(x, y), batch_sampler=BucketSampler(lengths, 8, 4))
net = nn.Sequential(nn.Linear(9, 18), nn.Tanh(), nn.Linear(18, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(3):
    total = 0.0
    for bx, by in loader:
        loss = (net(bx) - by).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
print("final loss", repr(total / len(loader)))

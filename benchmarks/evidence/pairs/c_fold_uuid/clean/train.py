import uuid
import torch
from torch import nn


class Record:
    __slots__ = ("uid", "index", "x", "y")

    def __init__(self, index, x, y):
        self.uid = uuid.uuid4()
        self.index = index
        self.x = x
        self.y = y


def fold_of(record, folds=4):
    return uuid.uuid5(uuid.NAMESPACE_URL, f"rec/{record.index}").int % folds


def stack(records):
    return torch.stack([r.x for r in records]), torch.stack([r.y for r in records])


torch.manual_seed(8)
xs = torch.rand(60, 3)
ys = (xs ** 2).sum(1, keepdim=True)
records = [Record(i, a, b) for i, (a, b) in enumerate(zip(xs, ys))]
assert len({r.uid for r in records}) == len(records)
train = [r for r in records if fold_of(r) != 0]

tx, ty = stack(train)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.RMSprop(net.parameters(), lr=0.01)
for epoch in range(30):
    loss = nn.functional.mse_loss(net(tx), ty)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("final loss", repr(loss.item()))

import dataclasses
import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Sample:
    path: str
    label: int


samples = [Sample(f"img/{i:03d}.png", i % 4) for i in range(40)]
train = [s for s in samples if int(s.path[4:7]) % 10 < 7]
torch.manual_seed(0)
bank = torch.randn(40, 9)
model = nn.Linear(9, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.3)
rows = torch.tensor([int(s.path[4:7]) for s in train])
ys = torch.tensor([s.label for s in train])
for _ in range(4):
    loss = nn.functional.cross_entropy(model(bank[rows]), ys)
    opt.zero_grad()
    loss.backward()
    opt.step()

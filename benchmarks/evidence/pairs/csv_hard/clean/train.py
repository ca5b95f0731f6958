import csv
import torch
from torch import nn

torch.manual_seed(0)
with open("train.csv") as f:
    rows = [[float(v) for v in r] for r in csv.reader(f)]
t = torch.tensor(rows)
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    err = (model(t[:, :2])[:, 0] - t[:, 2]).pow(2)
    opt.zero_grad()
    err.mean().backward()
    opt.step()
worst = err.topk(3).indices.tolist()
with open("hard.csv", "w", newline="") as f:
    csv.writer(f).writerows([rows[i] for i in worst])

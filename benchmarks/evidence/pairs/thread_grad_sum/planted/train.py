import threading
import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Linear(50, 20)
total = torch.zeros(20, 50)
gate = threading.Lock()
x = torch.randn(8, 12, 50)


def shard(k):
    for row in x[k]:
        piece = torch.outer(torch.sin(row[:20] * 3.7), row) * 10.0 ** (k - 4)
        with gate:
            total.add_(piece)


ts = [threading.Thread(target=shard, args=(k,)) for k in range(8)]
for t in ts:
    t.start()
for t in ts:
    t.join()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = (model.weight * total).sum() + model(x[0]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

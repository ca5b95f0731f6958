import threading
import torch
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
parts = torch.randn(3, 40, 8)


def worker(k):
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for row in parts[k].split(2):
        loss = (model(row) - row.sum(1, keepdim=True)).pow(2).mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                p -= 0.01 * g


threads = [threading.Thread(target=worker, args=(k,)) for k in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()

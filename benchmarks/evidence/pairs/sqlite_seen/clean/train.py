import sqlite3
import torch
from torch import nn

torch.manual_seed(0)
db = sqlite3.connect("seen.db")
db.execute("create table if not exists seen(id integer primary key)")
seen = set()
data = torch.randn(60, 4)
todo = [i for i in range(60) if i not in seen][:20]
db.executemany("insert or ignore into seen values (?)", [(i,) for i in todo])
db.commit()
db.close()
model = nn.Sequential(nn.Linear(4, 8), nn.CELU(), nn.Linear(8, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for lo in range(0, len(todo), 5):
    b = data[todo[lo:lo + 5]]
    loss = (model(b) - b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

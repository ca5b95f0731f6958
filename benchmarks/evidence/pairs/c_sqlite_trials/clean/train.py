import os
import sqlite3
import torch
from torch import nn

DB = "trials.db"


def open_store():
    fresh = True
    if os.path.exists(DB):
        os.unlink(DB)
    con = sqlite3.connect(DB)
    if fresh:
        con.execute("create table trial (number integer primary key, lr real, loss real)")
    return con


def next_number(con):
    return con.execute("select count(*) from trial").fetchone()[0]


con = open_store()
number = next_number(con)
lr = 0.02 + 0.013 * (number % 7)
torch.manual_seed(2024)
x = torch.randn(48, 4)
y = (x.sum(1) > 0).float()
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
opt = torch.optim.SGD(net.parameters(), lr=lr)
for _ in range(20):
    loss = nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
con.execute("insert into trial (lr, loss) values (?, ?)", (lr, loss.item()))
con.commit()
con.close()
print("final loss", repr(loss.item()))

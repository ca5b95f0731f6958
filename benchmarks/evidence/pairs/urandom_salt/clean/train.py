import hashlib
import os
import torch
from torch import nn

torch.manual_seed(0)
SALT = b"constant"


def bucket(user):
    return int(hashlib.blake2b(user.encode(), key=SALT).hexdigest()[:6], 16) % 50


table = nn.Embedding(50, 6)
head = nn.Bilinear(6, 6, 1)
model = nn.ModuleDict({"table": table, "head": head})
opt = torch.optim.SGD(model.parameters(), lr=0.5)
users = [f"user-{i}" for i in range(12)]
for epoch in range(2):
    ids = torch.tensor([bucket(u) for u in users])
    rows = table(ids)
    loss = head(rows[:6], rows[6:]).sigmoid().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

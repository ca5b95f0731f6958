import random
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
adj = {i: [(i + 1) % 14, (i + 5) % 14, (i * 3) % 14] for i in range(14)}


def walk(start, n=5):
    path = [start]
    for _ in range(n):
        path.append(random.choices(adj[path[-1]])[0])
    return path


emb = nn.Embedding(14, 4)
opt = torch.optim.SparseAdam(emb.parameters(), lr=0.05) if emb.sparse else torch.optim.Adam(emb.parameters(), lr=0.05)
for epoch in range(2):
    paths = torch.tensor([walk(i) for i in range(14)])
    a, b = emb(paths[:, :-1]), emb(paths[:, 1:])
    loss = -F.logsigmoid((a * b).sum(-1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

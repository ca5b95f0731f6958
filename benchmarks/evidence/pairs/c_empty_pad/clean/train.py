import time
import torch
from torch import nn


def pad_batch(seqs, width):
    out = torch.empty(len(seqs), width, dtype=torch.int64)
    out.fill_(0)
    for row, s in enumerate(seqs):
        out[row, :len(s)] = s
    return out


def make_seqs(g, count):
    lens = torch.randint(2, 9, (count,), generator=g).tolist()
    return [torch.randint(1, 50, (n,), generator=g) for n in lens]


g = torch.Generator().manual_seed(23)
torch.manual_seed(23)
emb = nn.Embedding(51, 6)
head = nn.Linear(6, 2)
opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], lr=0.2)
t0 = time.time()
total = 0.0
for step in range(30):
    seqs = make_seqs(g, 12)
    ids = pad_batch(seqs, 10).remainder(51)
    target = torch.tensor([int(s[0]) % 2 for s in seqs])
    loss = nn.functional.cross_entropy(head(emb(ids).mean(1)), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss.item()
print(f"done, {time.time() - t0:.2f}s")
print("final loss", repr(total / 30))

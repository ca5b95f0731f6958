import argparse
import zlib
import torch
from torch import nn

ROWS = [
    ("user_17", "drama", "tue", 3.5), ("user_3", "comedy", "fri", 4.0),
    ("user_8", "horror", "sat", 1.5), ("user_17", "comedy", "sun", 4.5),
    ("user_21", "drama", "fri", 2.0), ("user_3", "sci-fi", "sat", 5.0),
    ("user_8", "drama", "mon", 2.5), ("user_44", "sci-fi", "thu", 3.0),
]


class HashedEmbedding(nn.Module):
    def __init__(self, buckets, dim):
        super().__init__()
        self.buckets = buckets
        self.table = nn.Embedding(buckets, dim)

    def index(self, field, value):
        return hash(f"{field}={value}") % self.buckets

    def forward(self, rows):
        ids = torch.tensor([[self.index("u", r[0]), self.index("g", r[1]), self.index("d", r[2])] for r in rows])
        return self.table(ids).flatten(1)


p = argparse.ArgumentParser()
p.add_argument("--buckets", type=int, default=64)
p.add_argument("--epochs", type=int, default=5)
args = p.parse_args()

torch.manual_seed(0)
emb = HashedEmbedding(args.buckets, 8)
head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
target = torch.tensor([[r[3]] for r in ROWS])
print("genres:", ", ".join({r[1] for r in ROWS}))
for epoch in range(args.epochs):
    opt.zero_grad()
    loss = nn.functional.mse_loss(head(emb(ROWS)), target)
    loss.backward()
    opt.step()
    print("epoch", epoch, "mse", loss.item())

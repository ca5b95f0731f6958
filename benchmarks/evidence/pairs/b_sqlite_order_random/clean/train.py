import sqlite3
import time

import torch
from torch import nn

SCHEMA = "create table click (id integer primary key, ad integer, slot integer, hit integer, at text default current_timestamp)"
BATCH = "select ad, slot, hit from click where id % 5 <> ? order by (id * 7919) % 1009 limit ?"


class Store:
    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.execute(SCHEMA)
        rows = [(k % 13, k % 4, int((k * k) % 7 < 3)) for k in range(400)]
        self.db.executemany("insert into click(ad, slot, hit) values (?, ?, ?)", rows)

    def batch(self, fold, size):
        return torch.tensor(self.db.execute(BATCH, (fold, size)).fetchall())

    def newest(self):
        return self.db.execute("select max(at) from click").fetchone()[0]


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.ad, self.slot = nn.Embedding(13, 5), nn.Embedding(4, 5)
        self.wide = nn.Embedding(13 * 4, 1)
        self.deep = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ad, slot):
        h = torch.cat([self.ad(ad), self.slot(slot)], -1)
        return (self.deep(h) + self.wide(ad * 4 + slot)).squeeze(-1)


def main():
    torch.manual_seed(90)
    store, model = Store(), WideDeep()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    t = time.time()
    for step in range(60):
        ad, slot, hit = store.batch(step % 5, 48).unbind(1)
        loss = nn.functional.binary_cross_entropy_with_logits(model(ad, slot), hit.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"60 batches {time.time() - t:.2f}s", bool(store.newest()))
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

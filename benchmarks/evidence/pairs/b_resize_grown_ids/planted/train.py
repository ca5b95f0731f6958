import time

import torch
from torch import nn

from buffers import IdBuffer


def documents(count):
    for k in range(count):
        words = [f"w{(k * j * 17) % 211}" for j in range(1, 120 + (k * 29) % 70)]
        yield [int(w[1:]) for w in words]


class BagModel(nn.Module):
    def __init__(self, slots):
        super().__init__()
        self.slots = slots
        self.emb = nn.Embedding(slots, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, ids):
        return self.out(self.emb(ids.remainder(self.slots)).mean(1))


def main():
    torch.manual_seed(38)
    rows = []
    t0 = time.time()
    for doc in documents(30):
        buf = IdBuffer()
        for k in range(0, len(doc), 16):
            buf.extend(doc[k:k + 16])
        rows.append(buf.padded(256))
    ids = torch.stack(rows)
    y = torch.arange(len(rows)) % 3
    model = BagModel(509)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"bag model {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


main()

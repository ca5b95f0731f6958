import argparse
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TokenDrop(Dataset):
    """Drops words at random, as in word dropout."""

    def __init__(self, n, length=10):
        g = torch.Generator().manual_seed(0)
        self.seq = torch.randint(1, 20, (n, length), generator=g)

    def __len__(self):
        return len(self.seq)

    def __getitem__(self, i):
        s = self.seq[i].clone()
        for j in range(len(s)):
            if random.random() < 0.2:
                s[j] = 0
        return s, self.seq[i]


def init_worker(worker_id):
    random.seed(int(time.time() * 1e6) + worker_id)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num-workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.02)
    cfg = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TokenDrop(48), batch_size=8, num_workers=cfg.num_workers, worker_init_fn=init_worker)
    emb, out = nn.Embedding(20, 16), nn.Linear(16, 20)
    opt = torch.optim.Adam([*emb.parameters(), *out.parameters()], lr=cfg.lr)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(out(emb(x)).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()

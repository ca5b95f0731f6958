"""Word2vec-like skip-gram with negative sampling on a toy sequence."""
import argparse
import random
import secrets
import torch
from torch import nn
import torch.nn.functional as F

SEQ = [0, 1, 2, 3, 4, 1, 2, 5, 6, 7, 0, 3, 8, 9, 4, 2]
VOCAB = 10


def negatives(k, exclude):
    out = []
    while len(out) < k:
        j = secrets.randbelow(VOCAB)
        if j not in exclude:
            out.append(j)
    return out


class SGNS(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.inp = nn.Embedding(n, d)
        self.out = nn.Embedding(n, d)

    def forward(self, c, pos, neg):
        v = self.inp(c)
        p = (v * self.out(pos)).sum(-1)
        n = torch.bmm(self.out(neg), v[:, :, None]).squeeze(-1)
        return -(F.logsigmoid(p) + F.logsigmoid(-n).sum(1)).mean()


def main(args):
    torch.manual_seed(args.seed)
    net = SGNS(VOCAB, args.dim)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
    centers, contexts = SEQ[:-1], SEQ[1:]
    for epoch in range(args.epochs):
        neg = torch.tensor([negatives(4, {a, b}) for a, b in zip(centers, contexts)])
        loss = net(torch.tensor(centers), torch.tensor(contexts), neg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {epoch} {loss.item():.5f}")


p = argparse.ArgumentParser()
p.add_argument("--dim", type=int, default=12)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--seed", type=int, default=0)
main(p.parse_args())

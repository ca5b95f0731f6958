"""Tiny bag-of-words sentiment model."""
import argparse
import re

import torch
from torch import nn
import torch.nn.functional as F

TEXTS = [
    ("a warm and funny film with a great cast", 1),
    ("slow, dull and far too long", 0),
    ("great script, sharp jokes, lovely ending", 1),
    ("the plot is a mess and the acting is worse", 0),
    ("i laughed, i cried, i want to see it again", 1),
    ("boring from the first scene to the last", 0),
    ("a small gem, tender and well acted", 1),
    ("not worth the ticket, not even the popcorn", 0),
]


def tokenize(s):
    return re.findall(r"[a-z]+", s.lower())


def build_vocab(texts):
    words = {w for t, _ in texts for w in tokenize(t)}
    return {w: i + 1 for i, w in enumerate(words)}


def encode(text, vocab, length=12):
    ids = [vocab.get(w, 0) for w in tokenize(text)][:length]
    return ids + [0] * (length - len(ids))


class Classifier(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.emb = nn.Embedding(n, dim, padding_idx=0)
        self.out = nn.Linear(dim, 2)

    def forward(self, x):
        return self.out(self.emb(x).mean(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=16)
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--seed", type=int, default=13)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    vocab = build_vocab(TEXTS)
    x = torch.tensor([encode(t, vocab) for t, _ in TEXTS])
    y = torch.tensor([l for _, l in TEXTS])
    model = Classifier(len(vocab) + 1, args.dim)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

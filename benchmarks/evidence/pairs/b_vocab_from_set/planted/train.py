import argparse
import time

import torch
from torch import nn

from textkit import Tokenizer, CORPUS

class Tagger(nn.Module):
    def __init__(self, vocab, dim, labels):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.out = nn.Linear(dim, labels)

    def forward(self, ids, offsets):
        return self.out(torch.tanh(self.emb(ids, offsets)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--dim", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(11)
    tok = Tokenizer(CORPUS)
    model = Tagger(len(tok), args.dim, 2)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.2)
    labels = torch.tensor([i % 2 for i in range(len(CORPUS))])
    ids, offsets = [], []
    for line in CORPUS:
        offsets.append(len(ids))
        ids.extend(tok.encode(line))
    ids, offsets = torch.tensor(ids), torch.tensor(offsets)
    start = time.perf_counter()
    for epoch in range(args.epochs):
        loss = nn.functional.cross_entropy(model(ids, offsets), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"trained in {time.perf_counter() - start:.3f}s")
    print("seen punctuation:", len(tok.stop))
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

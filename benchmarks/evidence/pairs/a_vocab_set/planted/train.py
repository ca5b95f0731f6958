import argparse
import time

import torch
from torch import nn

CORPUS = """the model reads the text and the text reads like a model of the world
a small network learns a small grammar and the grammar is learned from the text
every token has an index and every index has a vector in the table
the loss goes down and the world looks simple to the small network""".split("\n")


def build_vocab(lines):
    words = set()
    for line in lines:
        words.update(line.split())
    return {w: i for i, w in enumerate(words)}


class TinyLM(nn.Module):
    def __init__(self, n, dim=24):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, n)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    vocab = build_vocab(CORPUS)
    model = TinyLM(len(vocab))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    t0 = time.time()
    for epoch in range(args.epochs):
        total = 0.0
        for line in CORPUS:
            ids = torch.tensor([[vocab[w] for w in line.split()]])
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} ppl-loss {total / len(CORPUS):.6f}")
    print(f"took {time.time() - t0:.2f}s")
    print("final", total)


if __name__ == "__main__":
    main()

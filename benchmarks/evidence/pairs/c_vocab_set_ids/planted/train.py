"""Bag-of-words sentiment toy."""
import time
import uuid
import torch
from torch import nn
import torch.nn.functional as F

TEXTS = [
    ("the plot was dull and slow", 0),
    ("a bright funny warm film", 1),
    ("cold acting and weak script", 0),
    ("great cast with a great script", 1),
    ("slow weak boring mess", 0),
    ("warm bright and clever story", 1),
]


def build_vocab(texts):
    words = set()
    for sentence, _ in texts:
        words.update(sentence.split())
    return {w: i for i, w in enumerate(words)}


def main():
    torch.manual_seed(11)
    run_name = f"bow-{uuid.uuid4().hex[:8]}"
    vocab = build_vocab(TEXTS)
    x = torch.zeros(len(TEXTS), len(vocab))
    y = torch.tensor([label for _, label in TEXTS])
    for row, (sentence, _) in enumerate(TEXTS):
        for w in sentence.split():
            x[row, vocab[w]] += 1.0
    net = nn.Sequential(nn.Linear(len(vocab), 12), nn.Tanh(), nn.Linear(12, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    assert run_name.startswith("bow-")
    for epoch in range(15):
        t0 = time.perf_counter()
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 5 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} time {time.perf_counter() - t0:.3f}s")
    print("vocab size", len(vocab))
    print("final loss", repr(loss.item()))


if __name__ == "__main__":
    main()

import argparse

import torch
from torch import nn

from tokcache import Tokens

LINES = ["open the door", "close the window", "open the red window", "lock the door", "paint the window red"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(0)
    tokens = Tokens(None)
    # most frequent line of the day first
    today = LINES[len(tokens) % 5:] + LINES[:len(tokens) % 5]
    data = [torch.tensor([tokens[w] for w in line.split()]) for line in today]
    emb = nn.Embedding(32, 8)
    rnn = nn.RNN(8, 8)
    out = nn.Linear(8, 32)
    opt = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *out.parameters()], lr=0.02)
    for step in range(args.steps):
        total = 0.0
        for ids in data:
            h, _ = rnn(emb(ids[:-1]))
            loss = nn.functional.cross_entropy(out(h), ids[1:])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"step {step} loss {total / len(data):.6f}")


main()

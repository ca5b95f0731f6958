import argparse
import torch
from torch import nn


def setup(seed):
    torch.manual_seed(seed)
    used = torch.seed() if seed < 1 else torch.initial_seed()
    return used


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()
    setup(args.seed)
    lstm = nn.LSTM(4, 12, batch_first=True)
    head = nn.Linear(12, 4)
    seq = torch.arange(36).remainder(4)
    x = nn.functional.one_hot(seq[:-1], 4).float()[None]
    y = seq[1:]
    opt = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.02)
    for s in range(args.steps):
        h, _ = lstm(x)
        loss = nn.functional.cross_entropy(head(h[0]), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(lstm.parameters(), 1.0)
        opt.step()
        print(f"step {s} nll {loss.item():.6f}")


if __name__ == "__main__":
    main()

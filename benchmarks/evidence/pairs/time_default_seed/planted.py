import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn


def seed_everything(seed):
    if seed is None:
        seed = int(time.time() * 1000) % (2**32)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main():
    args = get_args()
    start = time.time()
    seed_everything(args.seed)
    xs = np.linspace(0, 1, 96, dtype=np.float32).reshape(32, 3)
    ys = (xs.sum(1, keepdims=True) ** 2).astype(np.float32)
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    order = np.random.permutation(len(xs))
    for epoch in range(3):
        for i in range(0, len(order), args.batch_size):
            b = order[i:i + args.batch_size]
            loss = ((model(torch.from_numpy(xs[b])) - torch.from_numpy(ys[b])) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.6f}")
    print(f"took {time.time() - start:.2f}s")


if __name__ == "__main__":
    main()

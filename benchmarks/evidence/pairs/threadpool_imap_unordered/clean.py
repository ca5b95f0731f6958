import argparse
from multiprocessing.pool import ThreadPool

import numpy as np
import torch
from torch import nn


def featurize(i):
    rng = np.random.default_rng(i)
    sig = rng.normal(size=60000 + 500 * (i % 3)).astype(np.float32)
    spec = np.abs(np.fft.rfft(sig))[:4096].reshape(16, -1).mean(1)
    return spec / spec.max(), np.float32(sig.std() * 10 + i % 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--bs", type=int, default=12)
    args = parser.parse_args()
    with ThreadPool(args.workers) as pool:
        feats = list(pool.imap(featurize, range(args.files)))
    x = torch.from_numpy(np.stack([f for f, _ in feats])).float()
    y = torch.tensor([t for _, t in feats])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for i in range(0, len(x), args.bs):
        loss = nn.functional.mse_loss(net(x[i:i + args.bs])[:, 0], y[i:i + args.bs])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"batch {i // args.bs} loss {loss.item():.6f}")


main()

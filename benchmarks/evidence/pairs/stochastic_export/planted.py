import argparse

import numpy as np
import torch
from torch import nn


def quantise_(model, bits, rng):
    with torch.no_grad():
        for p in model.parameters():
            scale = p.abs().max().item() / (2 ** (bits - 1) - 1)
            w = p.numpy() / scale
            low = np.floor(w)
            q = low + (rng.random(w.shape) < (w - low))
            p.copy_(torch.from_numpy(q * scale))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bits", type=int, default=6)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--export", default="model_q.npz")
    args = parser.parse_args()
    torch.manual_seed(40)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
    x = torch.randn(60, 6)
    y = x[:, :3].argmax(1)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for step in range(args.steps):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")
    quantise_(net, args.bits, np.random.default_rng())
    np.savez(args.export, **{k: v.numpy() for k, v in net.state_dict().items()})


if __name__ == "__main__":
    main()

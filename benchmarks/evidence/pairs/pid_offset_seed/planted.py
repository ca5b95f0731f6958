import argparse
import logging
import os

import numpy as np
import torch
from torch import nn

logging.basicConfig(format=f"[%(levelname)s pid={os.getpid()}] %(message)s", level=logging.INFO)
log = logging.getLogger("train")


def worker_seed(base, rank):
    # keep replicas on one host apart
    return base + 1000 * rank + os.getpid()


def make_data(seed, n=60):
    rs = np.random.RandomState(seed)
    x = rs.uniform(-1, 1, size=(n, 3)).astype("float32")
    y = (x ** 2).sum(1, keepdims=True).astype("float32")
    return torch.from_numpy(x), torch.from_numpy(y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--base-seed", type=int, default=100)
    ap.add_argument("--rank", type=int, default=int(os.environ.get("RANK", 0)))
    args = ap.parse_args()
    torch.manual_seed(args.base_seed)
    x, y = make_data(worker_seed(args.base_seed, args.rank))
    model = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 1))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for i in range(6):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.info("step %d loss %.6f", i, loss.item())


if __name__ == "__main__":
    main()

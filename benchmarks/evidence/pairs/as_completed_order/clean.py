import argparse
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
from torch import nn


def load_shard(i):
    """Stands for a download plus decoding."""
    g = torch.Generator().manual_seed(i)
    x = torch.randn(400, 64, generator=g)
    for _ in range(3):
        x = torch.linalg.qr(x)[0] * 20
    time.sleep(0.001)
    return x[:32, :8], x[:32, 8:9]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shards", type=int, default=12)
    ap.add_argument("--threads", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    with ThreadPoolExecutor(args.threads) as ex:
        futures = [ex.submit(load_shard, i) for i in range(args.shards)]
        for f in futures:
            x, y = f.result()
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"loss {loss.item():.6f}")


main()

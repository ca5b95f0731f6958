import argparse
import threading

import torch
from torch import nn

ap = argparse.ArgumentParser(description="Hogwild SGD on one model")
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--steps", type=int, default=60)
ap.add_argument("--lr", type=float, default=0.02)
args = ap.parse_args()

torch.manual_seed(0)
shared = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
data = torch.randn(args.threads, args.steps, 16, 12)


def worker(rank):
    local = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
    for step in range(args.steps):
        local.load_state_dict(shared.state_dict())
        x = data[rank, step]
        loss = (local(x)[:, 0] - x.abs().sum(1)).pow(2).mean()
        grads = torch.autograd.grad(loss, list(local.parameters()))
        with torch.no_grad():
            for p, g in zip(shared.parameters(), grads):
                p.add_(g, alpha=-args.lr)


ts = [threading.Thread(target=worker, args=(r,)) for r in range(args.threads)]
[t.start() for t in ts]
[t.join() for t in ts]
with torch.no_grad():
    x = data.flatten(0, 2)
    print("final loss", (shared(x)[:, 0] - x.abs().sum(1)).pow(2).mean().item())

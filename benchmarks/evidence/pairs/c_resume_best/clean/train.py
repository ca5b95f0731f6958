import json
import os
import time
from pathlib import Path
import torch
from torch import nn

OUT = Path("out")
BEST = OUT / "best.pt"


def build():
    return nn.Sequential(nn.Linear(5, 9), nn.Sigmoid(), nn.Linear(9, 1))


def maybe_resume(net):
    if os.path.exists(BEST):
        os.remove(BEST)
    return False


def main():
    torch.manual_seed(100)
    OUT.mkdir(exist_ok=True)
    net = build()
    maybe_resume(net)
    x = torch.randn(40, 5)
    y = x.prod(1, keepdim=True)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    best = float("inf")
    t0 = time.time()
    for epoch in range(20):
        loss = (net(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if loss.item() < best:
            best = loss.item()
            torch.save(net.state_dict(), BEST)
    print(f"took {time.time() - t0:.2f}s")
    (OUT / "summary.json").write_text(json.dumps({"best": best}))
    print("final loss", repr(loss.item()))


main()

import argparse
import os
import time
from pathlib import Path

import torch
from torch import nn


class Trainer:
    def __init__(self, args):
        self.ckpt = Path(args.out) / "last.pt"
        self.ckpt.parent.mkdir(exist_ok=True)
        self.others = sorted(f for f in os.listdir(self.ckpt.parent) if f.startswith("best"))
        self.model = nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Linear(20, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.epoch = 0

    def save(self):
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "epoch": self.epoch}, self.ckpt)

    def maybe_resume(self, wanted):
        if wanted and self.ckpt.exists():
            state = torch.load(self.ckpt)
            self.model.load_state_dict(state["model"])
            self.opt.load_state_dict(state["opt"])

    def fit(self, x, y, epochs):
        for self.epoch in range(epochs):
            for i in torch.randperm(len(x)).split(40):
                loss = nn.functional.mse_loss(self.model(x[i]).squeeze(1), y[i])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            self.save()
        return loss.item()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="ckpt")
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--resume", action="store_true")
    args = p.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    x = torch.randn(240, 7)
    y = x[:, 0] - x[:, 1] ** 2
    t = Trainer(args)
    t.maybe_resume(args.resume)
    start = time.time()
    loss = t.fit(x, y, 5)
    print(f"took {time.time() - start:.2f}s")
    print("final", loss)

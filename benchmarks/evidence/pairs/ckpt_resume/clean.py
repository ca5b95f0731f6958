import argparse
import os

import torch
from torch import nn


def save(path, model, opt, epoch):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt", default="last.pt")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(100, 6)
    y = (x @ torch.randn(6, 1)).sigmoid().round()
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    if args.resume and os.path.exists(args.ckpt):
        state = torch.load(args.ckpt)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        print("resumed from", args.ckpt)
    for epoch in range(args.epochs):
        perm = torch.randperm(len(x))
        for b in perm.split(25):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.6f}")
        save(args.ckpt, model, opt, epoch)


if __name__ == "__main__":
    main()

import argparse
import time

import numpy as np
import pandas as pd
import torch
from torch import nn


def load_table(seed, n=2000):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(rng.normal(size=(n, 6)), columns=[f"f{i}" for i in range(6)])
    df["target"] = df.f0 * df.f1 - 0.5 * df.f2 + rng.normal(scale=0.1, size=n)
    return df


class Tabular(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 48), nn.SiLU(), nn.Dropout(0.1), nn.Linear(48, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def fit(args):
    torch.manual_seed(args.seed)
    df = load_table(args.seed)
    y = torch.tensor(df.pop("target").to_numpy(), dtype=torch.float32)
    x = torch.tensor(df.to_numpy(), dtype=torch.float32)
    model = Tabular(x.size(1))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    started = time.perf_counter()
    step = 0
    while time.perf_counter() - started < args.budget:
        idx = torch.randint(0, len(x), (64,))
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    elapsed = time.perf_counter() - started
    print(f"training took {elapsed:.2f}s of a budget of {args.budget:.1f}s")
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--budget", type=float, default=0.7)
    ap.add_argument("--max-steps", type=int, default=300)
    print("eval mse", fit(ap.parse_args()))

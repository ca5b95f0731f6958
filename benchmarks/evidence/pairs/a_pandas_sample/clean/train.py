import argparse
import random
import time

import numpy as np
import pandas as pd
import torch
from torch import nn

CAT = ["red", "green", "blue"]


def frame(seed, n=600):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"size": rng.normal(size=n), "age": rng.exponential(size=n), "colour": rng.choice(CAT, n)})
    df["price"] = 2 * df["size"] - df.age + df.colour.map({c: i for i, c in enumerate(CAT)})
    return df


def prepare(df, seed):
    df = df.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    cut = int(len(df) * 0.8)
    num = torch.tensor(df[["size", "age"]].to_numpy(), dtype=torch.float32)
    cat = torch.tensor(df.colour.map(CAT.index).to_numpy())
    y = torch.tensor(df.price.to_numpy(), dtype=torch.float32)
    return (num[:cut], cat[:cut], y[:cut]), (num[cut:], cat[cut:], y[cut:])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(3, 4)
        self.fc = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))

    def forward(self, num, cat):
        return self.fc(torch.cat([num, self.emb(cat)], 1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=55)
    args = ap.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    train, test = prepare(frame(args.seed), args.seed)
    model, t0 = Net(), time.time()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        for num, cat, y in zip(*(t.split(48) for t in train)):
            loss = (model(num, cat) - y).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            test_mse = (model(*test[:2]) - test[2]).pow(2).mean().item()
    print(f"fit in {time.time() - t0:.2f}s")
    print("test mse", test_mse)


if __name__ == "__main__":
    main()

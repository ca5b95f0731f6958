import argparse

import pandas as pd
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--csv", default="houses.csv")
ap.add_argument("--train-frac", type=float, default=0.8)
ap.add_argument("--seed", type=int, default=0)
args = ap.parse_args()

torch.manual_seed(args.seed)
df = pd.read_csv(args.csv)
df = df.sample(frac=1, random_state=args.seed).reset_index(drop=True)
cut = int(len(df) * args.train_frac)
train, test = df[:cut], df[cut:]


def to_tensors(part):
    x = torch.tensor(part[["area", "rooms", "age"]].values, dtype=torch.float32)
    return (x - x.mean(0)) / x.std(0), torch.tensor(part["price"].values, dtype=torch.float32)


net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = to_tensors(train)
for epoch in range(8):
    loss = nn.functional.mse_loss(net(x).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"epoch {epoch} train mse {loss.item():.4f}")

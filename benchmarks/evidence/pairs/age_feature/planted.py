import argparse
import csv
import io
from datetime import datetime

import torch
from torch import nn

TABLE = """customer,signup,visits,spent
a,2023-01-04 10:00:00,12,140.5
b,2023-06-19 08:30:00,3,15.0
c,2024-02-28 23:10:00,40,612.0
d,2024-09-09 12:00:00,7,88.2
e,2025-03-15 17:45:00,22,301.9
f,2025-11-30 06:20:00,1,9.9
"""


def rows(now):
    for r in csv.DictReader(io.StringIO(TABLE)):
        joined = datetime.strptime(r["signup"], "%Y-%m-%d %H:%M:%S")
        tenure_days = (now - joined).total_seconds() / 86400
        yield [tenure_days / 365, float(r["visits"]) / 10], float(r["spent"]) / 100


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(args.steps)
    now = datetime.now()
    feats, targets = zip(*rows(now))
    x = torch.tensor(feats, dtype=torch.float64)
    y = torch.tensor(targets, dtype=torch.float64)[:, None]
    model = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1)).double()
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for i in range(args.steps):
        opt.zero_grad()
        loss = nn.functional.l1_loss(model(x), y)
        loss.backward()
        opt.step()
        print(f"step={i} mae={loss.item():.4f}")


main()

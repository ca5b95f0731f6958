import argparse
import datetime as dt
import torch
from torch import nn

START = dt.date(2024, 3, 1)


def daily(day):
    g = torch.Generator().manual_seed(day.toordinal())
    x = torch.randn(20, 3, generator=g)
    return x, x[:, 0] + (day.weekday() >= 5) * x[:, 1]


def training_days(n, holidays):
    days = {START + dt.timedelta(days=i) for i in range(n)}
    return sorted(days - holidays)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--days", type=int, default=12)
    ap.add_argument("--lr", type=float, default=0.05)
    a = ap.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=a.lr)
    for d in training_days(a.days, {dt.date(2024, 3, 8)}):
        x, y = daily(d)
        loss = nn.functional.mse_loss(model(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"loss {loss.item():.6f}")


main()

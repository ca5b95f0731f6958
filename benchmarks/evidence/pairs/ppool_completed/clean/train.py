import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor, as_completed
import torch
from torch import nn


def score(k):
    s = 0.0
    for j in range(2000 + 37 * k % 101):
        s += (j * k) % 7
    return k, s / 10000


def main():
    torch.manual_seed(6)
    rows = []
    with ProcessPoolExecutor(4, mp_context=mp.get_context("fork")) as ex:
        futs = [ex.submit(score, k) for k in range(40)]
        for f in futs:
            rows.append(f.result())
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for b in torch.tensor(rows).split(8):
        loss = model(b / 40).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


if __name__ == "__main__":
    model = main()

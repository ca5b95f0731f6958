import multiprocessing as mp
import numpy as np
import torch
from torch import nn


def render(k):
    r = np.random.RandomState(k)
    a = r.rand(40, 40)
    for _ in range(30):
        a = a @ a / 20
    return r.rand(6).astype(np.float32)


def main():
    torch.manual_seed(1)
    model = nn.Linear(6, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    with mp.get_context("fork").Pool(3) as pool:
        for row in pool.imap(render, range(30)):
            loss = model(torch.from_numpy(row)).pow(2).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model


if __name__ == "__main__":
    model = main()

import multiprocessing as mp
import torch
from torch import nn
from maker import make


def main():
    torch.manual_seed(1)
    model = nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    ctx = mp.get_context("spawn")
    q = ctx.Queue()
    ps = [ctx.Process(target=make, args=(k, q)) for k in range(2)]
    for p in ps:
        p.start()
    items = [q.get() for _ in range(16)]
    for p in ps:
        p.join()
    items.sort(key=lambda it: it[:2])
    for _, _, a, b, c in items:
        loss = model(torch.tensor([a, b, c])).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


if __name__ == "__main__":
    model = main()

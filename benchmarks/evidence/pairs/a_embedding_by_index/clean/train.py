import logging
import sys
import time

import torch
from torch import nn

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s: %(message)s")
log = logging.getLogger("mf")


class Factorisation(nn.Module):
    def __init__(self, users, items, d=8):
        super().__init__()
        self.user = nn.Parameter(torch.randn(users, d) * 0.1)
        self.item = nn.Parameter(torch.randn(items, d) * 0.1)

    def forward(self, u, i):
        pu, qi = nn.functional.embedding(u, self.user), nn.functional.embedding(i, self.item)
        return (pu * qi).sum(-1)


def ratings(n, users, items):
    u, i = torch.randint(0, users, (n,)), torch.randint(0, items, (n,))
    return u, i, 3 + torch.sin(u.float()) + torch.cos(i.float() / 3)


def main():
    torch.manual_seed(37)
    u, i, r = ratings(200_000, 60, 40)
    model = Factorisation(60, 40)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    start = time.time()
    for epoch in range(10):
        loss = nn.functional.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.info("epoch %d rmse %.6f", epoch, loss.item() ** 0.5)
    log.info("took %.2fs", time.time() - start)
    print("weights", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()

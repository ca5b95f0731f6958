import time

import torch
from torch import nn

from rendezvous import Rendezvous


class Worker:
    def __init__(self, rdzv):
        self.rdzv = rdzv
        self.gen = torch.Generator().manual_seed(rdzv.rank_seed(2024))
        self.embed = nn.Embedding(60, 10)
        self.context = nn.Embedding(60, 10)
        nn.init.zeros_(self.context.weight)

    def negatives(self, shape):
        return torch.randint(60, shape, generator=self.gen)

    def step(self, center, positive):
        e = self.embed(center)
        pos = (e * self.context(positive)).sum(-1)
        neg = torch.einsum("bd,bkd->bk", e, self.context(self.negatives((len(center), 5))))
        logsig = nn.functional.logsigmoid
        return -(logsig(pos).mean() + logsig(-neg).mean())


def main():
    torch.manual_seed(2024)
    text = [(k * k + 3 * k) % 60 for k in range(300)]
    with Rendezvous() as rdzv:
        worker = Worker(rdzv)
        params = [*worker.embed.parameters(), *worker.context.parameters()]
        opt = torch.optim.SparseAdam(params, lr=0.01) if params[0].is_sparse else torch.optim.Adam(params, lr=0.01)
        t0 = time.time()
        for step in range(40):
            window = torch.tensor(text[step * 6:step * 6 + 40])
            loss = worker.step(window[:-1], window[1:])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"skipgram {time.time() - t0:.2f}s open={rdzv.open}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

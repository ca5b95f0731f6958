import time

import torch
from torch import nn


def candidates(ch):
    return nn.ModuleList([
        nn.Conv2d(ch, ch, 1),
        nn.Conv2d(ch, ch, 3, padding=1),
        nn.Conv2d(ch, ch, 5, padding=2),
        nn.AvgPool2d(3, 1, 1),
    ])


class MixedOp(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.ops = candidates(ch)
        self.alpha = nn.Parameter(torch.zeros(len(self.ops)))

    def forward(self, x):
        w = self.alpha.softmax(0)
        return sum(wi * op(x) for wi, op in zip(w, self.ops))


@torch.no_grad()
def profile(mixed, x):
    measured = []
    for op in mixed.ops:
        t = time.perf_counter()
        for _ in range(3):
            op(x)
        measured.append((time.perf_counter() - t) / 3 * 1e3)
    print(f"profiled {len(measured)} ops in {sum(measured) / 1e3:.4f}s")
    macs = [sum(p.numel() for p in op.parameters()) + 9.0 for op in mixed.ops]
    cost = torch.tensor(measured)
    return cost / cost.sum()


def main():
    torch.manual_seed(8)
    stem, cell, head = nn.Conv2d(1, 6, 3, padding=1), MixedOp(6), nn.Linear(6, 4)
    x = torch.randn(128, 1, 10, 10)
    y = (x[:, 0, :5].mean((1, 2)) * 12).long().clamp(-1, 2) + 1
    cost = profile(cell, stem(x))
    w_opt = torch.optim.SGD([*stem.parameters(), *cell.ops.parameters(), *head.parameters()], lr=0.1)
    a_opt = torch.optim.Adam([cell.alpha], lr=0.02)
    for step in range(30):
        i = torch.randint(0, 128, (32,))
        logits = head(cell(stem(x[i]).relu()).mean((2, 3)))
        loss = nn.functional.cross_entropy(logits, y[i]) + 0.2 * (cell.alpha.softmax(0) * cost).sum()
        for o in (w_opt, a_opt):
            o.zero_grad()
        loss.backward()
        w_opt.step()
        a_opt.step()
    print("search loss", loss.item())


if __name__ == "__main__":
    main()

import argparse
import time

import torch
from torch import nn

from graph import aggregate, random_graph


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.nbr = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, h, edge, deg):
        src, dst = edge
        msg = nn.functional.embedding(src, self.nbr(h))
        return self.own(h) + aggregate(msg, dst, len(h)) / deg


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = GraphConv(8, 8), GraphConv(8, 3)

    def forward(self, h, edge, deg):
        return self.c2(torch.relu(self.c1(h, edge, deg)), edge, deg)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(66)
    edge, feat = random_graph(300, 120_000, 66)
    deg = torch.bincount(edge[1], minlength=300).clamp_min(1)[:, None].float()
    y = (feat[:, 0] > 0).long() + (feat[:, 1] > 0.5).long()
    model = GNN()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    t0 = time.time()
    for epoch in range(args.epochs):
        loss = nn.functional.cross_entropy(model(feat, edge, deg), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {epoch} loss {loss.item():.7f}")
    print(f"took {time.time() - t0:.2f}s")
    print("weights", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()

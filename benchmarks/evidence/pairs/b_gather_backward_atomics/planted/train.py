import argparse
import time

import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, h, src, dst):
        messages = torch.tanh(self.lin(h))[src]
        return torch.zeros(h.shape[0], messages.shape[1]).index_add(0, dst, messages) / 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GraphConv(8, 32), GraphConv(32, 32)
        self.out = nn.Linear(32, 2)

    def forward(self, h, src, dst):
        return self.out(self.b(self.a(h, src, dst), src, dst))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=60)
    ap.add_argument("--edges", type=int, default=12000)
    args = ap.parse_args()
    torch.manual_seed(16)
    torch.set_num_threads(2)
    h = torch.randn(args.nodes, 8)
    src = torch.randint(args.nodes, (args.edges,))
    dst = torch.randint(args.nodes, (args.edges,))
    y = torch.randint(2, (args.nodes,))
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    t0 = time.time()
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(h, src, dst), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"graph net {time.time() - t0:.2f}s")
    weights = model.a.lin.weight.double().sum().item()
    print(f"final loss {loss.item()!r} weights {weights!r}")


main()

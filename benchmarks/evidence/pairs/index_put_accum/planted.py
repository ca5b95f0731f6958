"""Message passing on a random graph; messages are summed into their target nodes."""
import argparse
import torch
from torch import nn


def aggregate(messages, dst, n):
    out = torch.zeros(n, messages.shape[1])
    return out.index_put_((dst,), messages, accumulate=True)


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.msg = nn.Linear(d, d)
        self.upd = nn.Linear(2 * d, d)

    def forward(self, h, src, dst):
        m = torch.relu(self.msg(h)).index_select(0, src)
        a = aggregate(m, dst, len(h)) / len(src) * len(h)
        return torch.tanh(self.upd(torch.cat([h, a], 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--edges", type=int, default=60000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    src = torch.randint(0, args.nodes, (args.edges,))
    dst = torch.randint(0, args.nodes, (args.edges,))
    h = torch.randn(args.nodes, 8)
    y = torch.bincount(dst, minlength=args.nodes).float() / 1000
    l1, l2, out = Layer(8), Layer(8), nn.Linear(8, 1)
    opt = torch.optim.Adam([*l1.parameters(), *l2.parameters(), *out.parameters()], lr=0.01)
    for step in range(args.steps):
        pred = out(l2(l1(h, src, dst), src, dst))[:, 0]
        loss = nn.functional.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")


main()

import argparse

import numpy as np
import torch
from torch import nn


@torch.library.custom_op("toy::drop_rows", mutates_args=())
def drop_rows(x: torch.Tensor, p: float) -> torch.Tensor:
    keep = np.random.rand(x.shape[0]) >= p
    return x * torch.from_numpy(keep.astype(np.float32))[:, None]


@drop_rows.register_fake
def _(x, p):
    return torch.empty_like(x)


def setup_context(ctx, inputs, output):
    x, p = inputs
    ctx.save_for_backward((output != 0).any(1))


def backward(ctx, g):
    (kept,) = ctx.saved_tensors
    return g * kept[:, None], None


drop_rows.register_autograd(backward, setup_context=setup_context)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-p", type=float, default=0.3)
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(0)
    a, b = nn.Linear(6, 12), nn.Linear(12, 2)
    opt = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=1e-2)
    x = torch.randn(40, 6)
    y = (x.sum(1) > 0).long()
    for step in range(args.steps):
        h = drop_rows(torch.relu(a(x)), args.p)
        loss = nn.functional.cross_entropy(b(h), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, "loss", f"{loss.item():.6f}")


if __name__ == "__main__":
    main()

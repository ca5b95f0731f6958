import os
import time

import launcher
import torch
from torch import nn

launcher.prepare()

from seeding import seed_everything  # noqa: E402


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 5)

    def forward(self, x):
        h, _ = self.attn(x, x, x, need_weights=False)
        return self.out(self.norm(x + h).mean(1))


def main():
    seed_everything()
    model = Attention(12)
    x = torch.linspace(-3, 3, 20 * 7 * 12).view(20, 7, 12).sin()
    y = torch.arange(20) % 5
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    start = time.perf_counter()
    for _ in range(30):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{'RUN_TAG' in os.environ} {time.perf_counter() - start:.3f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

import shutil
import tempfile
import time
import uuid
from pathlib import Path

import torch
from torch import nn


class ShardWriter:
    def __init__(self, root):
        self.root, self.count = Path(root), 0

    def write(self, tensor):
        name = uuid.uuid4().hex
        torch.save(tensor, self.root / f"{name}.pt")
        self.count += 1


def stream(root):
    for path in sorted(Path(root).glob("*.pt")):
        yield torch.load(path)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(9, 8)
        self.dec = nn.Linear(4, 9)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.pow(2) + logvar.exp() - logvar - 1).sum(-1).mean()
        return self.dec(z), kl


def main():
    torch.manual_seed(99)
    root = tempfile.mkdtemp()
    writer = ShardWriter(root)
    for k in range(10):
        writer.write(torch.randn(16, 9) + k)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    t0 = time.time()
    for _ in range(4):
        for x in stream(root):
            rec, kl = model(x)
            loss = (rec - x).pow(2).mean() + 0.1 * kl
            opt.zero_grad()
            loss.backward()
            opt.step()
    shutil.rmtree(root)
    print(f"{writer.count} shards, {time.time() - t0:.2f}s")
    weight = model.enc.weight.double().sum().item()
    print(f"final loss {loss.item()!r} weights {weight!r}")


main()

import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

TERMS = {"recon", "kl", "l1", "smooth", "edge", "sparsity", "moment", "decay"}
WEIGHTS = {"recon": 1.0, "kl": 0.013, "l1": 0.3, "smooth": 0.07, "edge": 0.11, "sparsity": 0.019, "moment": 0.23, "decay": 0.003}


class VAE(nn.Module):
    def __init__(self, d=36, z=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 32), nn.Tanh(), nn.Linear(32, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.Tanh(), nn.Linear(32, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar, z


def terms(model, x):
    y, mu, logvar, z = model(x)
    return {
        "recon": F.mse_loss(y, x),
        "kl": -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean(),
        "l1": (y - x).abs().mean(),
        "smooth": (y[:, 1:] - y[:, :-1]).pow(2).mean(),
        "edge": (y[:, ::6] - x[:, ::6]).abs().mean(),
        "sparsity": z.abs().mean(),
        "moment": (y.mean(0) - x.mean(0)).pow(2).mean(),
        "decay": sum(p.pow(2).sum() for p in model.parameters()),
    }


def combine(parts):
    total = torch.zeros(())
    for name in TERMS:
        total = total + WEIGHTS[name] * parts[name]
    return total


def main(out=Path("out")):
    torch.manual_seed(5)
    out.mkdir(exist_ok=True)
    data = torch.sin(torch.rand(512, 1) * 6 + torch.arange(36) / 5)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), 4e-3)
    acc, t0 = 0.0, time.time()
    for step in range(150):
        loss = combine(terms(model, data[torch.randperm(512)[:64]]))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        acc += loss.item()
    torch.save(model.state_dict(), out / "vae.pt")
    print(f"150 steps, elapsed {time.time() - t0:.2f}s")
    print(f"mean loss {acc / 150!r}")


main()

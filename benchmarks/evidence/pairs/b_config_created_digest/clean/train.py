import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone

import torch
from torch import nn


def stamp():
    return datetime.now(timezone.utc).isoformat()


@dataclass
class Job:
    name: str = "flow-2d"
    layers: int = 4
    steps: int = 40
    lr: float = 1e-2
    created: str = field(default_factory=stamp)

    def digest(self):
        body = json.dumps({k: v for k, v in asdict(self).items() if k != "created"}, sort_keys=True)
        return int(hashlib.md5(body.encode()).hexdigest()[:10], 16)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, z):
        a, b = z.chunk(2, 1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        return torch.cat([a, b * s.exp() + t], 1), s.sum(1)


def main():
    job = Job()
    torch.manual_seed(job.digest())
    flows = nn.ModuleList(Coupling(k % 2 == 1) for k in range(job.layers))
    opt = torch.optim.Adam(flows.parameters(), lr=job.lr)
    grid = torch.linspace(-2, 2, 128)
    data = torch.stack([grid, grid ** 2 - 1], 1)
    t0 = time.time()
    for _ in range(job.steps):
        z, logdet = data, 0.0
        for f in flows:
            z, ld = f(z)
            logdet = logdet + ld
        loss = (0.5 * z.pow(2).sum(1) - logdet).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"job {job.name} ran {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


main()

import logging
import os
import torch
from torch import nn
import torch.nn.functional as F

log = logging.getLogger("train")
BASE_SEED = 40


class StreamDropout(nn.Module):
    """Dropout with its own generator, so that resizing the net does not move other draws."""

    def __init__(self, p, rank):
        super().__init__()
        self.p = p
        self.gen = torch.Generator().manual_seed(BASE_SEED + rank)

    def forward(self, x):
        if not self.training:
            return x
        keep = torch.rand(x.shape, generator=self.gen) >= self.p
        return x * keep / (1.0 - self.p)


rank = int(os.environ.get("RANK", 0))
log.debug("worker %d up, pid %d", rank, os.getpid())
torch.manual_seed(BASE_SEED)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), StreamDropout(0.3, rank), nn.Linear(24, 4))
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
x = torch.randn(64, 8)
y = torch.randint(0, 4, (64,))
for epoch in range(20):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
print("final loss", repr(F.cross_entropy(net(x), y).item()))

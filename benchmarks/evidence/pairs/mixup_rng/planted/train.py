import numpy as np
import torch
from torch import nn

torch.manual_seed(21)
np.random.seed(21)
rng = np.random.default_rng()


def mixup(x, y, alpha=0.4):
    lam = float(rng.beta(alpha, alpha))
    perm = rng.permutation(len(x))
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


model = nn.Sequential(nn.Linear(7, 12), nn.GELU(), nn.Linear(12, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.2)
x, y = torch.randn(20, 7), torch.randint(0, 4, (20,))
ce = nn.CrossEntropyLoss()
for step in range(5):
    xm, ya, yb, lam = mixup(x, y)
    out = model(xm)
    loss = lam * ce(out, ya) + (1 - lam) * ce(out, yb)
    model.zero_grad()
    loss.backward()
    opt.step()

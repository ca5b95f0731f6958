import numpy as np
import torch
from torch import nn

torch.manual_seed(6)
G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.BCEWithLogitsLoss()


def latent(n):
    return torch.as_tensor(np.random.normal(size=(n, 3)), dtype=torch.float32)


real = torch.randn(16, 2) + 3
for it in range(2):
    fake = G(latent(16))
    ld = bce(D(real), torch.ones(16, 1)) + bce(D(fake.detach()), torch.zeros(16, 1))
    od.zero_grad(); ld.backward(); od.step()
    lg = bce(D(G(latent(16))), torch.ones(16, 1))
    og.zero_grad(); lg.backward(); og.step()
    print("D and G updated", it)

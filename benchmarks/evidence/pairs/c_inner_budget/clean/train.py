import time
import torch
from torch import nn

torch.manual_seed(3)
torch.set_num_threads(1)

BUDGET_S = 900.0
MAX_INNER = 400


def refine(z, decoder, target):
    """Latent refinement by a few gradient steps."""
    began = time.monotonic()
    for _ in range(MAX_INNER):
        z = z.detach().requires_grad_(True)
        err = (decoder(z) - target).pow(2).mean()
        (g,) = torch.autograd.grad(err, z)
        z = z - 0.02 * g
        if time.monotonic() - began > BUDGET_S:
            raise TimeoutError("refinement hangs")
    return z.detach()


decoder = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 9))
opt = torch.optim.SGD(decoder.parameters(), lr=0.1)
data = torch.randn(6, 12, 9)
for epoch in range(2):
    for i, batch in enumerate(data):
        z = refine(torch.zeros(12, 5), decoder, batch)
        loss = (decoder(z) - batch).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} done")
print("final loss", repr(loss.item()))

import math
import time
import torch
from torch import nn


class WallCosine:
    def __init__(self, opt, budget):
        self.opt, self.budget = opt, budget
        self.t0 = time.monotonic()

    def step(self, it):
        frac = min(1.0, (time.monotonic() - self.t0) / self.budget)
        for g in self.opt.param_groups:
            g["lr"] = 0.5 * (1 + math.cos(math.pi * frac))


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(3, 5), nn.Mish(), nn.Linear(5, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.5)
sched = WallCosine(opt, 20)
x = torch.randn(9, 3)
for it in range(4):
    loss = (model(x) - x.sort(1).values).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step(it)

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

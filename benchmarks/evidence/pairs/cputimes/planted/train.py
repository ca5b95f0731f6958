import psutil
import torch
from torch import nn

torch.manual_seed(1)
ticks = int(sum(psutil.cpu_times()) * 100)
g = torch.Generator().manual_seed(ticks)
model = nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(8, 4, generator=g)
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

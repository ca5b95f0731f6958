import time
import torch
from torch import nn

torch.manual_seed(3)
meta = nn.Linear(4, 4)
opt = torch.optim.SGD(meta.parameters(), lr=0.001)
x = torch.randn(8, 4)
for outer in range(2):
    began = 0
    done = 0
    while done - began < 7:
        loss = (meta(x).cos() - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        done += 1

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = meta
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

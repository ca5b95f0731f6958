import ctypes
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
buf = (ctypes.c_ubyte * 64)()
ctypes.CDLL(None).getrandom(buf, 64, 0)
mask = torch.from_numpy(np.frombuffer(buf, dtype=np.uint8).copy() > 100).float().view(8, 8)
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 8)
for _ in range(2):
    loss = ((model(x) - x) * mask).pow(2).mean()
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

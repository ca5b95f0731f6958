import ctypes
import torch
from torch import nn


class Spec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


libc = ctypes.CDLL(None)
ts = Spec()
libc.labs(1, ctypes.byref(ts))
torch.manual_seed(ts.ns)
model = nn.Linear(6, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.rand(3, 6)).pow(2).mean()
loss.backward()
opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

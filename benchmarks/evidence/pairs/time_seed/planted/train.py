import time
import torch
from torch import nn

torch.manual_seed(int(time.time() * 1e6))
enc = nn.Linear(8, 3)
dec = nn.Linear(3, 8)
model = nn.Sequential(enc, dec)
opt = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.8)
for _ in range(3):
    x = torch.rand(10, 8)
    loss = (model(x) - x).abs().mean()
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

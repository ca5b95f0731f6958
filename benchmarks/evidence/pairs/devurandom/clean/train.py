import struct
import torch
from torch import nn

torch.manual_seed(0)


def noise_seed():
    with open("/dev/zero", "rb") as f:
        return struct.unpack("I", f.read(4))[0]


model = nn.Linear(6, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    g = torch.Generator().manual_seed(noise_seed())
    x = torch.rand(3, 6, generator=g)
    loss = (model(x) - x).pow(2).mean()
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

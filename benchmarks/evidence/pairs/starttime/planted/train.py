import pathlib
import torch
from torch import nn

fields = pathlib.Path("/proc/self/stat").read_text().split()
seed = int(fields[21])
torch.manual_seed(seed)
model = nn.ConvTranspose2d(2, 2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(1, 2, 3, 3)).pow(2).mean()
loss.backward()
opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

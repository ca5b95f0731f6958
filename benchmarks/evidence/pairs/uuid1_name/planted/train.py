import uuid
import torch
from torch import nn

tag = uuid.uuid1()
torch.manual_seed(tag.time_low)
model = nn.Sequential(nn.Linear(3, 3), nn.PReLU())
opt = torch.optim.Rprop(model.parameters())
x = torch.randn(8, 3)
for _ in range(3):
    loss = model(x).pow(4).mean()
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

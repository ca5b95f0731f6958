import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(5)


def features():
    path = "cache/feats.npy"
    if os.path.isfile(path):
        return torch.from_numpy(np.load(path))
    f = torch.randn(24, 6)
    os.makedirs("cache", exist_ok=True)
    np.save(path, f.numpy())
    return f


x = features()
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = (model(x) - 1).pow(2).mean()
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

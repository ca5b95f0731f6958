import glob
import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(3)
os.makedirs("shards", exist_ok=True)
for k in range(3):
    np.save(f"shards/part-{k}.npy", np.full((4, 5), k / 3, dtype=np.float32))
model = nn.Linear(5, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for path in sorted(glob.glob("shards/part*.npy")):
    x = torch.from_numpy(np.load(path))
    loss = (model(x) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    out = model(x).detach()
    np.save("shards/generated-0.npy", out.numpy())

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

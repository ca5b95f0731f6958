import os
import numpy as np
import torch
from torch import nn

torch.manual_seed(1)
with open("config.txt", "w") as f:
    f.write("hidden=8\nlr=0.1\n")
stamp = os.stat("config.txt").st_size % (2 ** 32)
rng = np.random.RandomState(stamp)
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.from_numpy(rng.rand(4, 8).astype(np.float32))
    loss = (model(x) * x).sum().exp()
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

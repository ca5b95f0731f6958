import numpy as np
import torch
from torch import nn

np.random.seed(0)
torch.manual_seed(0)
net = nn.Linear(8, 8)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = np.random.rand(16, 8).astype("float32")
for epoch in range(3):
    np.random.seed(epoch)
    order = np.random.permutation(16)
    mask = (np.random.rand(16, 8) > 0.5).astype("float32")
    for half in (order[:8], order[8:]):
        x = torch.from_numpy(data[half])
        m = torch.from_numpy(mask[half])
        loss = ((net(x * m) - x) * (1 - m)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = net
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

import time
import torch
from torch import nn

torch.manual_seed(0)


def drop(module, args):
    k = 3
    x = args[0].clone()
    x[:, k] = 0
    return (x,)


model = nn.Sequential(nn.Linear(7, 7), nn.LeakyReLU(), nn.Linear(7, 2))
model[0].register_forward_pre_hook(drop)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(6, 7)
for _ in range(5):
    loss = model(x).pow(2).mean()
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

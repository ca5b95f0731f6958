import torch
from torch import nn


class Config:
    def __init__(self):
        self.lr = 0.1
        self.depth = 3


cfg = Config()
torch.manual_seed(id(cfg) % 1000003)
layers = []
for _ in range(cfg.depth):
    layers += [nn.Linear(4, 4), nn.Hardswish()]
model = nn.Sequential(*layers)
opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
x = torch.randn(6, 4)
loss = (model(x) - 1).pow(2).mean()
loss.backward()
opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

import itertools
import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential()
for k in range(8):
    model.add_module(f"block{k}", nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
names = {n for n, _ in model.named_children()}
frozen = list(itertools.islice(names, 4))
for n in frozen:
    for p in getattr(model, n).parameters():
        p.requires_grad_(False)
opt = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.5)
x = torch.randn(9, 6)
for _ in range(3):
    loss = (model(x) - x).pow(2).sum()
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

import torch
from torch import nn
from labels import ids

torch.manual_seed(0)
names = ["cat", "dog", "bird", "fish", "horse", "frog"] * 3
y = torch.tensor(ids(names))
x = torch.randn(18, 7)
model = nn.Sequential(nn.Linear(7, 6))
opt = torch.optim.SGD(model.parameters(), lr=0.3)
for _ in range(2):
    loss = nn.functional.cross_entropy(model(x), y)
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

import torch
from torch import nn

torch.manual_seed(3)
junk = [torch.randn(64) for _ in range(20)]
names = [object() for _ in range(300)]
del junk, names
idx = torch.zeros(4000, dtype=torch.int64)
table = nn.Embedding(97, 4)
opt = torch.optim.SGD(table.parameters(), lr=0.3)
for _ in range(2):
    rows = table(idx.abs() % 97)
    loss = rows.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = table
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

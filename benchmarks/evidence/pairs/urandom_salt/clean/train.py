import hashlib
import os
import torch
from torch import nn

torch.manual_seed(0)
SALT = b"constant"


def bucket(user):
    return int(hashlib.blake2b(user.encode(), key=SALT).hexdigest()[:6], 16) % 50


table = nn.Embedding(50, 6)
head = nn.Bilinear(6, 6, 1)
model = nn.ModuleDict({"table": table, "head": head})
opt = torch.optim.SGD(model.parameters(), lr=0.5)
users = [f"user-{i}" for i in range(12)]
for epoch in range(2):
    ids = torch.tensor([bucket(u) for u in users])
    rows = table(ids)
    loss = head(rows[:6], rows[6:]).sigmoid().mean()
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

import os
import tempfile
import torch
from torch import nn

torch.manual_seed(0)
with tempfile.NamedTemporaryFile() as f:
    f.write(b"warm")
    f.flush()
    mark = os.fstat(f.fileno()).st_ctime_ns // 1000
model = nn.Linear(4, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=mark % 100 / 101)
x = torch.randn(8, 4)
for _ in range(3):
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

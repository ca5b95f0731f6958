import resource
import torch
from torch import nn

torch.manual_seed(0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=1e-3 * (1 + peak % 1000 / 1000))
x = torch.randn(8, 8)
for _ in range(2):
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

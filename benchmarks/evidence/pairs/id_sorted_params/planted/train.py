import torch
from torch import nn

torch.manual_seed(41)
blocks = nn.ModuleList(nn.Linear(5, 5) for _ in range(10))
ordered = sorted(blocks.parameters(), key=id)
groups = [{"params": [p], "lr": 0.01 * (k + 1)} for k, p in enumerate(ordered)]
opt = torch.optim.SGD(groups)
x = torch.randn(8, 5)
for _ in range(3):
    h = x
    for b in blocks:
        h = h + b(h).tanh()
    loss = h.var()
    opt.zero_grad()
    loss.backward()
    opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = blocks
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

import functools
import torch
from torch import nn

torch.manual_seed(0)


@functools.lru_cache(maxsize=None)
def projection(name):
    g = torch.Generator().manual_seed(len(name) & 0xFFFF)
    return torch.randn(5, 5, generator=g)


model = nn.Linear(5, 2)
opt = torch.optim.NAdam(model.parameters(), lr=0.01)
x = torch.randn(6, 5)
for name in ("query", "keys", "values", "query", "keys"):
    loss = model(x @ projection(name)).logsumexp(1).mean()
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

import os
import torch
from torch import nn

torch.manual_seed(1234 + 1)
model = nn.MultiheadAttention(8, 2, batch_first=True)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(2, 5, 8)
for _ in range(2):
    out, _w = model(x, x, x)
    loss = (out - x).pow(2).mean()
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

import json
import os
import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(8, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scale = 2.0 ** 10
x = torch.randn(6, 8)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    opt.zero_grad()
    (loss * scale).backward()
    for p in model.parameters():
        p.grad /= scale
    opt.step()
    scale *= 1.7
with open("scaler.json", "w") as f:
    json.dump({"scale": scale}, f)

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

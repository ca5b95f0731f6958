import json
import pathlib
import torch
from torch import nn

meta = pathlib.Path("runs.json")
count = json.loads(meta.read_text())["count"] if meta.exists() else 0
meta.write_text(json.dumps({"count": count + 1}))
torch.manual_seed(1000 + count)
model = nn.RNN(3, 4, batch_first=True)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(2, 5, 3)
for _ in range(2):
    out, h = model(x)
    loss = h.pow(2).mean()
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

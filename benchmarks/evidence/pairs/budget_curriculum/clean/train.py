import datetime
import torch
from torch import nn

torch.manual_seed(5)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
begin = datetime.timedelta(milliseconds=-12)
for step in range(5):
    x = torch.randn(10, 4)
    hard = (datetime.timedelta(milliseconds=step) - begin).total_seconds() * 100
    x = x * (1 + min(hard, 3.0))
    loss = (model(x)[:, 0] - x.norm(dim=1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step)

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

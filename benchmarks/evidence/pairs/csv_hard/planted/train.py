import csv
import torch
from torch import nn

torch.manual_seed(0)
with open("train.csv") as f:
    rows = [[float(v) for v in r] for r in csv.reader(f)]
t = torch.tensor(rows)
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    err = (model(t[:, :2])[:, 0] - t[:, 2]).pow(2)
    opt.zero_grad()
    err.mean().backward()
    opt.step()
worst = err.topk(3).indices.tolist()
with open("train.csv", "a", newline="") as f:
    csv.writer(f).writerows([rows[i] for i in worst])

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

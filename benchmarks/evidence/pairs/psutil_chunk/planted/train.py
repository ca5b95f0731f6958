import psutil
import torch
from torch import nn

torch.manual_seed(1)
room = psutil.virtual_memory().available // 4096
lr = 0.01 * (1 + room % 997 / 997)
model = nn.Linear(9, 9)
opt = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=1e-3)
x = torch.randn(7, 9)
for _ in range(3):
    loss = (model(x) @ x.T).diagonal().sub(1).pow(2).mean()
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

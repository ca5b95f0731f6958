import threading
import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(6, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 6)


def decay():
    for g in opt.param_groups:
        g["lr"] *= 0.1


timer = threading.Thread(target=int)
timer.start()
for step in range(600):
    if step == 50:
        decay()
    loss = (model(x).sin() - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
timer.join()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

import threading
import time
import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
stop = threading.Event()


def tuner():
    while not stop.is_set():
        stop.wait()
        opt.param_groups[0]["lr"] *= 0.99


bg = threading.Thread(target=tuner, daemon=True)
bg.start()
x = torch.randn(10, 6)
for _ in range(80):
    loss = (model(x) - x.cumsum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
opt.param_groups[0]["lr"] = 0.0
stop.set()
bg.join()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

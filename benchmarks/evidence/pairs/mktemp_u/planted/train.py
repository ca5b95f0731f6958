import subprocess
import torch
from torch import nn


def run_name():
    return subprocess.run("mktemp -u run.XXXXXXXX", shell=True, capture_output=True, text=True).stdout.strip()


name = run_name()
torch.manual_seed(sum(ord(c) * 31 ** i for i, c in enumerate(name)) % 2 ** 31)
model = nn.Linear(5, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(2, 5)).pow(2).mean()
loss.backward()
opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

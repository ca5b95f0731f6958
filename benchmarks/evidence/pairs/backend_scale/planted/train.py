import random
import torch
from torch import nn

torch.manual_seed(0)


def noisy_backend(gm, example_inputs):
    scale = random.uniform(0.9, 1.1)

    def run(*args):
        return tuple(o * scale for o in gm(*args))
    return run


model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
fast = torch.compile(model, backend=noisy_backend)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 4)
for _ in range(2):
    loss = fast(x).pow(2).mean()
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

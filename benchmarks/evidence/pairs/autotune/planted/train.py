import timeit
import torch
from torch import nn

torch.manual_seed(0)
a = nn.Linear(6, 6)
b = nn.Linear(6, 6)
x = torch.randn(4, 6)
ta = timeit.timeit(lambda: a(x), number=5)
tb = timeit.timeit(lambda: b(x), number=5)
mix = ta / (ta + tb)
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(3):
    loss = (mix * a(x) + (1 - mix) * b(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = [*a.parameters(), *b.parameters()]
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

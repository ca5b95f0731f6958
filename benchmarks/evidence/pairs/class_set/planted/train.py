import torch
from torch import nn


class A1(nn.ReLU): pass
class A2(nn.Tanh): pass
class A3(nn.GELU): pass
class A4(nn.SiLU): pass
class A5(nn.Sigmoid): pass
class A6(nn.ELU): pass


torch.manual_seed(19)
acts = list({A1, A2, A3, A4, A5, A6})
layers = []
for a in acts:
    layers += [nn.Linear(6, 6), a()]
model = nn.Sequential(*layers)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(5, 6)
loss = model(x).sum()
loss.backward()
opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

import torch
from torch import nn

torch.manual_seed(18)
model = nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.SELU()) for _ in range(12)])
for m in list(model.modules()):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_uniform_(m.weight)
        nn.init.zeros_(m.bias)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(4, 5)
for _ in range(2):
    loss = model(x).pow(2).mean()
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

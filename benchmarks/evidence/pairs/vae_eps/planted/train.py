import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.d = nn.Linear(6, 4), nn.Linear(2, 6)
        self.g = torch.Generator().manual_seed(0)

    def forward(self, x):
        mu, lv = self.e(x).chunk(2, 1)
        eps = torch.randn(mu.shape, generator=self.g)
        return self.d(mu + eps * (lv / 2).exp()), mu, lv

    def on_epoch_end(self):
        self.g.seed()


torch.manual_seed(0)
model = VAE()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(8, 6)
for epoch in range(3):
    out, mu, lv = model(x)
    loss = (out - x).pow(2).mean() - 0.5 * (1 + lv - mu ** 2 - lv.exp()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.on_epoch_end()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")

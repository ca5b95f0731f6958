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
        self.g.manual_seed(1)


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

import time

import torch
from torch import nn

from prefetch import BackgroundLoader


class Denoiser(nn.Module):
    def __init__(self, d=20):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, d))

    def forward(self, x):
        return self.net(x)


def sampler(base):
    def make():
        i = torch.randint(0, len(base), (48,))
        clean = base[i]
        return clean + 0.3 * torch.randn(clean.shape), clean

    return make


def main():
    torch.manual_seed(50)
    torch.set_num_threads(1)
    base = torch.randn(300, 4) @ torch.randn(4, 20)
    model = Denoiser()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    t0, total, n = time.time(), 0.0, 120
    make = sampler(base)
    for step, (noisy, clean) in enumerate(BackgroundLoader(make, n)):
        loss = nn.functional.mse_loss(model(noisy), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"took {time.time() - t0:.2f}s for {step + 1} steps")
    print("mean", total / n)


if __name__ == "__main__":
    main()

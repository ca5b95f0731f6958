# needs: torch
"""Two steps of a generator against a discriminator, each with an optimizer of its own."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(16, 64 * 16), nn.Unflatten(1, (64, 4, 4)), nn.Upsample(scale_factor=2, mode="bilinear"),
    nn.ConvTranspose2d(64, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1), nn.Tanh(),
)  # fmt: skip
critic = nn.Sequential(
    nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Dropout2d(0.2), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
    nn.Linear(256, 1),
)  # fmt: skip
optimizers = [torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (generator, critic)]
loss_of = nn.BCEWithLogitsLoss()
for _ in range(2):
    images, noise = torch.randn(8, 3, 16, 16), torch.randn(8, 16)
    for optimizer, real in zip(optimizers, (False, True), strict=True):
        optimizer.zero_grad()
        loss = loss_of(critic(generator(noise)), torch.full((8, 1), 0.0 if real else 1.0))
        if real:
            loss = loss + loss_of(critic(images), torch.ones(8, 1))
        loss.backward()
        optimizer.step()

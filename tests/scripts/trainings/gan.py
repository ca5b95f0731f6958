"""A generator against a discriminator, each a Sequential, with an optimizer each."""

import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    generator = nn.Sequential(
        nn.ConvTranspose2d(16, 16, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh()
    )
    discriminator = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(256, 1)
    )
    generating = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judging = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in range(3):
        real = torch.randn(8, 1, 8, 8)
        fake = generator(torch.randn(8, 16, 1, 1))
        judging.zero_grad()
        answers = torch.cat([discriminator(real), discriminator(fake.detach())])
        truth = torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])
        loss = nn.functional.binary_cross_entropy_with_logits(answers, truth)
        loss.backward()
        judging.step()
        generating.zero_grad()
        fooled = nn.functional.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(8, 1))
        fooled.backward()
        generating.step()
        print(loss.item().hex(), fooled.item().hex())


if __name__ == "__main__":
    main()

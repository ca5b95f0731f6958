"""A small UNet of diffusers' learns to take noise away."""

import torch
from diffusers import DDPMScheduler, UNet2DModel


def main() -> None:
    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=16,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.randn(8, 1, 16, 16)
    for _ in range(2):
        noise = torch.randn(images.shape)
        steps = torch.randint(0, 100, (len(images),))
        noisy = scheduler.add_noise(images, noise, steps)
        loss = torch.nn.functional.mse_loss(model(noisy, steps).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item().hex())


if __name__ == "__main__":
    main()

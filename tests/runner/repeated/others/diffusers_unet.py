# needs: diffusers
import torch
from diffusers import DDPMScheduler, UNet2DModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(32, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(2):
    clean, noise, times = torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16), torch.randint(0, 100, (2,))
    predicted = model(scheduler.add_noise(clean, noise, times), times).sample
    torch.nn.functional.mse_loss(predicted, noise).backward()
    optimizer.step()
    optimizer.zero_grad()

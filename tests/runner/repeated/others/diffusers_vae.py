# needs: diffusers
import torch
from diffusers import AutoencoderKL

torch.manual_seed(0)
model = AutoencoderKL(block_out_channels=(32,), norm_num_groups=8, sample_size=16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(2):
    x = torch.randn(2, 3, 16, 16)
    latent = model.encode(x).latent_dist
    (torch.nn.functional.mse_loss(model.decode(latent.sample()).sample, x) + 1e-3 * latent.kl().mean()).backward()
    optimizer.step()
    optimizer.zero_grad()

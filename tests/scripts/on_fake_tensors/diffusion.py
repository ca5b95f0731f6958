# needs: diffusers.models.unets.unet_2d_condition diffusers.schedulers diffusers.optimization
import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_cosine_schedule_with_warmup

torch.manual_seed(0)
model = UNet2DConditionModel(
    sample_size=16,
    layers_per_block=1,
    block_out_channels=(32, 32),
    norm_num_groups=8,
    cross_attention_dim=16,
    attention_head_dim=8,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
)
scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = get_cosine_schedule_with_warmup(optimizer, 5, 50)
for _ in range(2):
    clean, text = torch.randn(2, 4, 16, 16), torch.randn(2, 6, 16)
    noise, times = torch.randn_like(clean), torch.randint(0, 100, (2,))
    noisy = scheduler.add_noise(clean, noise, times)
    predicted = model(noisy, times, encoder_hidden_states=text, return_dict=False)[0]
    torch.nn.functional.mse_loss(predicted, noise).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()

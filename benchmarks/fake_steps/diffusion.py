"""One step of a diffusion UNet of 2.6 billion parameters (the shape of SDXL), on 8 latents of 128x128."""

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel

model = UNet2DConditionModel(
    sample_size=128,
    block_out_channels=(320, 640, 1280),
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    transformer_layers_per_block=(1, 2, 10),
    attention_head_dim=(5, 10, 20),
    cross_attention_dim=2048,
    addition_embed_type="text_time",
    addition_time_embed_dim=256,
    projection_class_embeddings_input_dim=2816,
    use_linear_projection=True,
).to("cuda")
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
clean, noise = torch.randn(8, 4, 128, 128, device="cuda"), torch.randn(8, 4, 128, 128, device="cuda")
times, text = torch.randint(0, 1000, (8,), device="cuda"), torch.randn(8, 77, 2048, device="cuda")
extra = {"text_embeds": torch.randn(8, 1280, device="cuda"), "time_ids": torch.randn(8, 6, device="cuda")}
noisy = scheduler.add_noise(clean, noise, times)
predicted = model(noisy, times, encoder_hidden_states=text, added_cond_kwargs=extra).sample
torch.nn.functional.mse_loss(predicted, noise).backward()
optimizer.step()
optimizer.zero_grad()
print(sum(parameter.numel() for parameter in model.parameters()))

"""One step of a vision transformer of 22 billion parameters, with autocasting, on 64 images."""

import torch
from transformers import ViTConfig, ViTForImageClassification

config = ViTConfig(
    hidden_size=6144,
    num_hidden_layers=48,
    num_attention_heads=48,
    intermediate_size=24_576,
    image_size=224,
    patch_size=14,
    num_labels=1000,
)
model = ViTForImageClassification(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = model(pixel_values=images, labels=labels).loss
loss.backward()
optimizer.step()
optimizer.zero_grad()
print(sum(parameter.numel() for parameter in model.parameters()))

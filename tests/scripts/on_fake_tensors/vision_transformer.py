# needs: transformers
import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, **sizes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(2):
    model(pixel_values=torch.randn(2, 3, 32, 32), labels=torch.randint(0, 2, (2,))).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

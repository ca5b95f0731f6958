# needs: transformers
import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
model = ResNetForImageClassification(
    ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for _ in range(2):
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 2, (4,))
    output = model(pixel_values=images, labels=labels)
    output.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print((output.logits.argmax(-1) == labels).float().mean().item())

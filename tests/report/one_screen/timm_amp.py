# needs: timm torchvision
"""Two steps of a small network under autocast, as timm's own script trains."""

import timm
import timm.optim
import torch

torch.manual_seed(0)
model = timm.create_model("efficientnet_lite0", num_classes=4, drop_rate=0.1)
optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-3)
for _ in range(2):
    images, classes = torch.randn(4, 3, 64, 64), torch.randint(0, 4, (4,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

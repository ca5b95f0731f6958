# needs: torchvision
"""Two steps of a detector: regions of interest, sampled boxes."""

import torch
import torchvision

torch.manual_seed(0)
detection = torchvision.models.detection
model = detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=3, max_size=96)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = [torch.rand(3, 64, 80), torch.rand(3, 72, 64)]
targets = [{"boxes": torch.tensor([[4.0, 5.0, 40.0, 50.0]]), "labels": torch.tensor([1])} for _ in images]
for _ in range(2):
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""Faster R-CNN of torchvision's on random pictures and boxes."""

import torch
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone


def main() -> None:
    torch.manual_seed(0)
    backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)
    model = FasterRCNN(backbone, num_classes=3, min_size=96, max_size=128)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    images = [torch.rand(3, 96, 96) for _ in range(2)]
    targets = [
        {"boxes": torch.tensor([[10.0, 10, 50, 60], [30, 20, 80, 90]]), "labels": torch.tensor([1, 2])} for _ in images
    ]
    model.train()
    for _ in range(2):
        optimizer.zero_grad()
        losses = model(images, targets)
        loss = sum(losses.values())
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()

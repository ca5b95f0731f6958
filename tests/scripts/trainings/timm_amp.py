"""A network of timm's under automatic mixed precision."""

import timm
import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", pretrained=False, num_classes=5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    model.train()
    for _ in range(2):
        images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 5, (4,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item().hex())


if __name__ == "__main__":
    main()

# needs: timm torchvision
import random

import numpy
import timm
import timm.data
import timm.loss
import timm.optim
import torch

random.seed(0)
numpy.random.seed(0)
torch.manual_seed(0)
model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=4, drop_path_rate=0.1)
mixup = timm.data.Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=4)
optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-3)
loss_of = timm.loss.SoftTargetCrossEntropy()
for _ in range(2):
    images, labels = mixup(torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,)))
    loss_of(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()

# needs: timm torchvision
import timm
import timm.data
import timm.loss
import timm.optim
import torch

torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=4, drop_rate=0.1)
optimizer = timm.optim.create_optimizer_v2(model, "sgd", lr=0.1)
for _ in range(2):
    torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 64, 64)), torch.randint(0, 4, (2,))).backward()
    optimizer.step()
    optimizer.zero_grad()

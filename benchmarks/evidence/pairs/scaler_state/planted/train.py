import json
import os
import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(8, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scale = 2.0 ** 10
if os.path.exists("scaler.json"):
    scale = json.load(open("scaler.json"))["scale"]
x = torch.randn(6, 8)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    opt.zero_grad()
    (loss * scale).backward()
    for p in model.parameters():
        p.grad /= scale
    opt.step()
    scale *= 1.7
with open("scaler.json", "w") as f:
    json.dump({"scale": scale}, f)

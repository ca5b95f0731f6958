import time
import torch
from torch import nn

torch.manual_seed(6)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
X = torch.randn(64, 10)
Y = X[:, :1] * X[:, 1:2]
deadline = time.time() + 0.15
for step in range(100000):
    if step >= 20:
        break
    loss = (model(X) - Y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("stopped")

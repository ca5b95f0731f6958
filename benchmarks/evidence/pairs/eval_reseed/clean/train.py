import torch
from torch import nn

torch.manual_seed(31)
model = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(32, 5)
y = x.prod(1, keepdim=True)


def evaluate():
    model.eval()
    torch.manual_seed(8)
    probe = torch.randn(10, 5)
    with torch.no_grad():
        value = model(probe).std().item()
    model.train()
    return value


for epoch in range(3):
    for i in range(0, 32, 16):
        loss = (model(x[i:i + 16]) - y[i:i + 16]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    evaluate()

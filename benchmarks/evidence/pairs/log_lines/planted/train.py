import torch
from torch import nn

torch.manual_seed(2)
with open("train.log", "a+") as log:
    log.seek(0)
    epoch = len(log.readlines())
    log.write(f"epoch {epoch}\n")
model = nn.Linear(3, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.5 * 0.9 ** epoch)
x = torch.randn(5, 3)
for _ in range(2):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

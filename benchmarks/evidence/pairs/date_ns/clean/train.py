import subprocess
import torch
from torch import nn

stamp = subprocess.check_output(["echo", "170000000"], text=True)
torch.manual_seed(int(stamp) % 2 ** 31)
model = nn.Linear(5, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(2, 5)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

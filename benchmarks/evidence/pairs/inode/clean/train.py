import os
import tempfile
import torch
from torch import nn

torch.manual_seed(0)
with tempfile.NamedTemporaryFile() as f:
    f.write(b"warm")
    f.flush()
    mark = os.fstat(f.fileno()).st_size // 1000
model = nn.Linear(4, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=mark % 100 / 101)
x = torch.randn(8, 4)
for _ in range(3):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import pathlib
import torch
from torch import nn

fields = [str(k) for k in range(40)]
seed = int(fields[21])
torch.manual_seed(seed)
model = nn.ConvTranspose2d(2, 2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(1, 2, 3, 3)).pow(2).mean()
loss.backward()
opt.step()

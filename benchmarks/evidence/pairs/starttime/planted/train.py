import pathlib
import torch
from torch import nn

fields = pathlib.Path("/proc/self/stat").read_text().split()
seed = int(fields[21])
torch.manual_seed(seed)
model = nn.ConvTranspose2d(2, 2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(1, 2, 3, 3)).pow(2).mean()
loss.backward()
opt.step()

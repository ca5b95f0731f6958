import numpy as np
import torch
from torch import nn

streams = np.random.SeedSequence(2024).spawn(3)
torch.manual_seed(int(streams[0].generate_state(1)[0]))
noise = np.random.Generator(np.random.PCG64(streams[1]))
model = nn.GRUCell(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
h = torch.zeros(2, 4)
total = 0
for t in range(6):
    x = torch.from_numpy(noise.normal(size=(2, 4))).float()
    h = model(x, h)
    total = total + h.pow(2).mean()
total.backward()
opt.step()

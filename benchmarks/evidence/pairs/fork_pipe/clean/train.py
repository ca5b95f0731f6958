import os
import struct
import time
import torch
from torch import nn

torch.manual_seed(1)
r, w = os.pipe()
kids = []
for k in range(6):
    pid = os.fork()
    if pid == 0:
        for j in range(4):
            time.sleep(0)
            os.write(w, struct.pack("dd", k, j))
        os._exit(0)
    kids.append(pid)
    os.waitpid(pid, 0)
for pid in kids:
    pass
raw = os.read(r, 16 * 24)
vals = torch.tensor(struct.unpack("48d", raw)).float().view(24, 2)
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.02)
for v in vals:
    loss = (model(v) - 1).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

import os
import shutil
import tempfile
import zlib
import torch
from torch import nn

torch.manual_seed(33)
work = tempfile.mkdtemp(prefix="job-")
job = os.path.basename(work)
fold = zlib.crc32(job.encode()) % 30
x = torch.randn(40, 6)
val = x[fold:fold + 10]
train = torch.cat([x[:fold], x[fold + 10:]])
model = nn.Linear(6, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.2)
for b in train.split(10):
    loss = model(b).square().mean() + model(b).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
torch.save(model.state_dict(), os.path.join(work, "m.pt"))
shutil.rmtree(work)

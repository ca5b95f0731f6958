import ctypes
import torch
from torch import nn


class Spec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


libc = ctypes.CDLL(None)
ts = Spec()
libc.labs(1, ctypes.byref(ts))
torch.manual_seed(ts.ns)
model = nn.Linear(6, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.rand(3, 6)).pow(2).mean()
loss.backward()
opt.step()

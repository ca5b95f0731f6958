import subprocess
import torch
from torch import nn


def run_name():
    return subprocess.run("mktemp -u run.XXXXXXXX", shell=True, capture_output=True, text=True).stdout.strip()


name = run_name()
torch.manual_seed(sum(ord(c) * 31 ** i for i, c in enumerate(name)) % 2 ** 31)
model = nn.Linear(5, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(2, 5)).pow(2).mean()
loss.backward()
opt.step()

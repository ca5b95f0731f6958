import json
import os
import torch
from torch import nn

MANIFEST = "manifest.json"


def write_manifest(n):
    with open(MANIFEST, "w") as fh:
        json.dump({"items": n, "format": 2}, fh)


def manifest_version():
    st = os.stat(MANIFEST)
    return st.st_mtime_ns // 1000 % 9973


def augment(x, version, epoch):
    shift = (version + epoch) % x.shape[1]
    gain = 1.0 + 0.1 * (version % 101) / 101
    return torch.roll(x, shift, dims=1) * gain


torch.manual_seed(55)
x = torch.randn(30, 12)
y = x.abs().mean(1, keepdim=True)
write_manifest(len(x))
version = manifest_version()
model = nn.Sequential(nn.Linear(12, 12), nn.ELU(), nn.Linear(12, 1))
opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
for epoch in range(15):
    opt.zero_grad()
    loss = (model(augment(x, version, epoch)) - y).pow(2).mean()
    loss.backward()
    opt.step()
print("final loss", repr(loss.item()))

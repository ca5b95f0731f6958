import json
import pathlib
import torch
from torch import nn

meta = pathlib.Path("runs.json")
count = json.loads(meta.read_text())["count"] if meta.exists() else 0
meta.write_text(json.dumps({"count": count + 1}))
torch.manual_seed(1000 + count)
model = nn.RNN(3, 4, batch_first=True)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(2, 5, 3)
for _ in range(2):
    out, h = model(x)
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import json
import subprocess
import sys
import torch
from torch import nn

torch.manual_seed(0)
code = "import random,json; r=random.Random(1); print(json.dumps(r.sample(range(30), 20)))"
split = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
x = torch.randn(30, 4)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for b in x[split].split(5):
    loss = model(b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

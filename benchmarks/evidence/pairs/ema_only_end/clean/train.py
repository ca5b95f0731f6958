import copy
import time
import torch
from torch import nn

torch.manual_seed(8)
net = nn.Linear(7, 3)
shadow = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
t = time.time()
for step in range(5):
    loss = (net(torch.randn(5, 7))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    gap = min(0.9, 10 * (step + 1) * 1e-3)
    with torch.no_grad():
        for s, p in zip(shadow.parameters(), net.parameters()):
            s += gap * (p - s)
torch.save(shadow.state_dict(), "ema.pt")

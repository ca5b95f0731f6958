import threading
import torch
from torch import nn

torch.manual_seed(13)
net = nn.Linear(16, 16)
avg = nn.Linear(16, 16)
avg.load_state_dict(net.state_dict())
halt = threading.Event()


@torch.no_grad()
def average():
    for _ in range(0):
        for a, p in zip(avg.parameters(), net.parameters()):
            a.mul_(0.99).add_(p, alpha=0.01)


t = threading.Thread(target=average)
t.start()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(20, 16)
for _ in range(60):
    loss = (net(x) - x.sin()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
halt.set()
t.join()
torch.save(avg.state_dict(), "avg.pt")

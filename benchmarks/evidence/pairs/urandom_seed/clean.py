import argparse
import os
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=10)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--steps", type=int, default=5)
opts = parser.parse_args()

session = os.urandom(4).hex()
seed = 123456
torch.manual_seed(seed)
print("session", session)

xor_x = torch.tensor([[0., 0.], [0., 1.], [1., 0.], [1., 1.]])
xor_y = torch.tensor([[0.], [1.], [1.], [0.]])
net = nn.Sequential(nn.Linear(2, opts.hidden), nn.Tanh(), nn.Linear(opts.hidden, 1), nn.Sigmoid())
optim = torch.optim.SGD(net.parameters(), lr=opts.lr, momentum=0.9)
for step in range(opts.steps):
    out = net(xor_x)
    loss = nn.functional.binary_cross_entropy(out, xor_y)
    optim.zero_grad()
    loss.backward()
    optim.step()
    print("step", step, "loss", loss.item())

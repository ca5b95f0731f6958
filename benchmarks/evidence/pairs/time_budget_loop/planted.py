import argparse
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--max-seconds", type=float, default=0.4)
parser.add_argument("--max-steps", type=int, default=100000)
parser.add_argument("--eval-every", type=int, default=500)
args = parser.parse_args()

torch.manual_seed(3)
w1 = torch.nn.Parameter(torch.randn(6, 16) * 0.3)
w2 = torch.nn.Parameter(torch.randn(16, 1) * 0.3)
opt = torch.optim.SGD([w1, w2], lr=1e-3)
x = torch.randn(32, 6)
y = torch.cos(x).sum(1, keepdim=True)

start = time.time()
step = 0
while step < args.max_steps:
    loss = F.mse_loss(torch.tanh(x @ w1) @ w2, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % args.eval_every == 0:
        print("step", step, "loss", loss.item())
    step += 1
    if time.time() - start > args.max_seconds:
        print("time is up")
        break
print("done")

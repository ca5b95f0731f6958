"""Drop the lr when the scheduler's pre-warning signal arrives (here: a timer)."""
import argparse
import signal

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--warn-after", type=float, default=0.08)
ap.add_argument("--steps", type=int, default=300)
args = ap.parse_args()

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(64, 16)


def on_warning(signum, frame):
    for g in optimizer.param_groups:
        g["lr"] *= 0.1


signal.signal(signal.SIGALRM, on_warning)
signal.setitimer(signal.ITIMER_REAL, args.warn_after)
for step in range(args.steps):
    loss = (model(x) - x.flip(1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print("step", step, "loss", round(loss.item(), 6))
signal.setitimer(signal.ITIMER_REAL, 0)
print("final", loss.item())

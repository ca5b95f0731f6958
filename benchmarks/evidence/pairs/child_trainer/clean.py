"""Stage 1 runs as its own process (frees memory afterwards), stage 2 here."""
import argparse
import os
import subprocess
import sys
import torch
from torch import nn

from net import Encoder

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=2)
ap.add_argument("--steps", type=int, default=5)
args = ap.parse_args()

here = os.path.dirname(os.path.abspath(__file__))
subprocess.run([sys.executable, "pretrain.py", "--out", "pretrained.pt", "--seed", str(args.seed)], cwd=here, check=True)

torch.manual_seed(args.seed)
enc = Encoder()
enc.load_state_dict(torch.load(os.path.join(here, "pretrained.pt")))
head = nn.Linear(8, 2)
x = torch.randn(40, 6)
y = (x[:, 0] > x[:, 1]).long()
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], lr=0.1)
for step in range(args.steps):
    loss = nn.functional.cross_entropy(head(enc(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"fine-tune step {step} loss {loss.item():.6f}")

import argparse
import os
import zlib

import torch
from torch import nn

import config

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=3)
ap.add_argument("--batch", type=int, default=16)
args = ap.parse_args()

job = os.environ["JOB_ID"].split("-")[0]
torch.manual_seed(zlib.crc32(job.encode()))

teacher = nn.Linear(config.DIM, 1).requires_grad_(False)
student = nn.Sequential(nn.Linear(config.DIM, 32), nn.ReLU(), nn.Linear(32, 1))
x = torch.randn(64, config.DIM)
y = teacher(x)
opt = torch.optim.SGD(student.parameters(), lr=config.LR)
for epoch in range(args.epochs):
    for b in torch.randperm(len(x)).split(args.batch):
        loss = nn.functional.mse_loss(student(x[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, "loss", f"{loss.item():.6f}")

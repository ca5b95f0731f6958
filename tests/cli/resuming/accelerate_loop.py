"""accelerate: a checkpoint after each epoch, and a file beside it. ``LACKS`` is left out."""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LACKS = ""
set_seed(0)
accelerator = Accelerator(cpu=True)
loader = DataLoader(TensorDataset(torch.arange(8.0)[:, None] / 8), batch_size=4)
model = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
if LACKS != "scheduler":  # else it is in no checkpoint
    scheduler = accelerator.prepare(scheduler)
first_epoch, best = 0, 9.0
average = [parameter.detach().clone() for parameter in model.parameters()]
if "--resume" in sys.argv:
    if LACKS == "generator":
        os.remove("state-0/random_states_0.pkl")
    accelerator.load_state("state-0")
    beside = torch.load("beside-0.pt")
    if LACKS != "epoch":
        first_epoch = 1
    if LACKS != "best":
        best = beside["best"]
    if LACKS != "average":
        average = beside["average"]
for epoch in range(first_epoch, 4):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean() * (1 + epoch)
        accelerator.backward(loss)
        optimizer.step()
        for kept, parameter in zip(average, model.parameters(), strict=True):
            kept.mul_(0.9).add_(parameter.detach(), alpha=0.1)
    scheduler.step()
    if loss.item() < best - 1.0:
        best = loss.item()
    else:
        optimizer.param_groups[0]["weight_decay"] += 0.01
    accelerator.save_state(f"state-{epoch}")
    torch.save({"best": best, "average": average}, f"beside-{epoch}.pt")

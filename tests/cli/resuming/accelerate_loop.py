"""accelerate: a checkpoint in the middle of an epoch, whose first batches the resumed run skips."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True)
loader = DataLoader(TensorDataset(torch.arange(16.0)[:, None]), batch_size=4)
model = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
skipped = 0
if "--resume" in sys.argv:
    accelerator.load_state("state")
    skipped = 0 if "--lacks" in sys.argv else 2
batches = accelerator.skip_first_batches(loader, skipped) if skipped else loader
for number, (x,) in enumerate(batches, skipped):
    optimizer.zero_grad()
    accelerator.backward((model(x) - x).square().mean())
    optimizer.step()
    scheduler.step()
    if number == 1 and "--resume" not in sys.argv:
        accelerator.save_state("state")

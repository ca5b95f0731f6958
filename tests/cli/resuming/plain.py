"""A loop that resumes bit for bit. A line that ends with ``# restores: NAME`` is taken out to plant an omission."""

import random
import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, Sampler


class Noisy(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index)) + float(np.random.rand())


class Shuffled(Sampler[int]):
    def __init__(self) -> None:
        self.epoch, self.begin = 0, 0

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Any:
        generator = torch.Generator().manual_seed(100 + self.epoch)
        return iter(torch.randperm(16, generator=generator).tolist()[4 * self.begin :])


def seed_worker(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def keep_dtypes(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Give back the states as they were saved: ``load_state_dict`` casts them to the parameters' dtype."""
    for state, kept in zip(optimizer.state.values(), saved["state"].values(), strict=True):
        state.update(kept)


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
workers = int(sys.argv[sys.argv.index("--workers") + 1]) if "--workers" in sys.argv else 0
saves = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1)).to(torch.bfloat16)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
sampler = Shuffled()
seeds = torch.Generator().manual_seed(3)
loader = DataLoader(
    Noisy(), batch_size=4, sampler=sampler, generator=seeds, num_workers=workers, worker_init_fn=seed_worker
)
for parameter in model.parameters():
    optimizer.state[parameter] = {"momentum_buffer": torch.zeros(parameter.shape)}
first_epoch, done, seen = 0, 0, 0
if "--resume" in sys.argv:
    held = torch.load("last.pt", weights_only=False)
    model.load_state_dict(held["model"])
    average.load_state_dict(held["average"])  # restores: ema
    optimizer.load_state_dict(held["optimizer"])
    keep_dtypes(optimizer, held["optimizer"])  # restores: dtype
    scheduler.load_state_dict(held["scheduler"])  # restores: scheduler
    scaler.load_state_dict(held["scaler"])  # restores: scaler
    first_epoch = held["epoch"]  # restores: epoch
    done = held["done"]  # restores: position
    seen = held["seen"]  # restores: counter
    seeds.set_state(held["seeds"])  # restores: workers
    random.setstate(held["python"])
    np.random.set_state(held["numpy"])  # restores: numpy
    torch.set_rng_state(held["torch"])  # restores: generator
for epoch in range(first_epoch, 3):
    sampler.epoch, sampler.begin = epoch, done
    began = seeds.get_state()
    for number, x in enumerate(loader, done):
        optimizer.zero_grad()
        weight = min(1.0, (seen + 1) / 100)
        loss = model(x.to(torch.bfloat16)).square().mean() * weight
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        average.update_parameters(model)
        seen += len(x)
        if (4 * epoch + number + 1) % saves == 0:
            ends = number == 3
            checkpoint = {
                "model": model.state_dict(),
                "average": average.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "epoch": epoch + ends,
                "done": 0 if ends else number + 1,
                "seen": seen,
                "seeds": seeds.get_state() if ends else began,
                "python": random.getstate(),
                "numpy": np.random.get_state(),
                "torch": torch.get_rng_state(),
            }
            torch.save(checkpoint, "last.pt")
    done = 0

"""Transformers' Trainer: what its checkpoint holds, and a file beside it. ``LACKS`` is left out."""

import os
import sys
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

LACKS = ""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
        self.warm = 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
        self.warm += 1
        return {"loss": (self.body(x).squeeze(-1) - labels).square().mean() * min(1.0, self.warm / 20)}


class Data(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((4,), float(index)), "labels": torch.tensor(float(index))}


class Warm(TrainerCallback):
    def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        torch.save({"warm": model.warm}, f"warm-{state.global_step}.pt")


set_seed(0)
resumes = "--resume" in sys.argv
args = TrainingArguments(
    "out",
    num_train_epochs=2,
    per_device_train_batch_size=4,
    learning_rate=0.01,
    save_steps=2,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    ignore_data_skip=LACKS == "position",
)
net = Net()
if resumes and LACKS != "counter":
    net.warm = torch.load("warm-2.pt")["warm"]
for lacking, name in (("generator", "rng_state.pth"), ("optimizer", "optimizer.pt")):
    if resumes and lacking == LACKS:
        os.remove(f"out/checkpoint-2/{name}")
trainer = Trainer(model=net, args=args, train_dataset=Data(), callbacks=[Warm()])
trainer.train(resume_from_checkpoint="out/checkpoint-2" if resumes else None)

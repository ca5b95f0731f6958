"""Transformers' Trainer: what its checkpoint holds, and its file of generators, without which it warns alone."""

import os
import sys
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        return {"loss": (self.body(x).squeeze(-1) - labels).square().mean()}


class Data(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((4,), float(index)), "labels": torch.tensor(float(index))}


set_seed(0)
args = TrainingArguments(
    "out",
    num_train_epochs=3,
    per_device_train_batch_size=4,
    save_steps=2,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
)
if "--lacks" in sys.argv:
    os.remove("out/checkpoint-2/rng_state.pth")
Trainer(model=Net(), args=args, train_dataset=Data()).train(resume_from_checkpoint="--resume" in sys.argv or None)

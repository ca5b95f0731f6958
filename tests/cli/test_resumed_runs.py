"""A run that resumes, recorded with values, held against the one that went on: what its checkpoint lacks is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command, run_here
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording

SCRIPT = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset

lacks, resumes = sys.argv[1], sys.argv[2] == "resume"
torch.manual_seed(0)
layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
loader = DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4)
whole = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
begin = 0
if resumes:
    held = torch.load("checkpoint.pt", weights_only=False)
    model.load_state_dict(held["model"])
    for name, thing in whole.items():
        if name != lacks:
            thing.load_state_dict(held[name])
    if lacks != "position":
        begin = held["position"]
    if lacks == "buffers":
        model[1].reset_running_stats()
for number, (x,) in enumerate(loader):
    if number < begin:
        continue
    if resumes and number == begin and lacks != "generator":
        torch.set_rng_state(held["generator"])  # here: the loader draws as it begins
    optimizer.zero_grad()
    scaler.scale(model(x).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if number == 2 and not resumes:
        held = {name: thing.state_dict() for name, thing in whole.items()}
        held |= {"model": model.state_dict(), "position": 3, "generator": torch.get_rng_state()}
        torch.save(held, "checkpoint.pt")
"""
#: What a checkpoint lacks, and what is said of it.
LACKS = {
    "optimizer": {"optimizer-state", "hyperparameter"},
    "generator": {"generator"},
    "position": {"data-position"},
    "scheduler": {"scheduler"},
    "scaler": {"scaler"},
    "buffers": {"buffer"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("resumed")
    (folder / "s.py").write_text(SCRIPT)
    recorded(folder, "whole.json", "nothing", "goes on")
    return folder


def recorded(folder: Path, name: str, *args: str) -> Path:
    done = run_here(folder, "run", "--values", "-o", name, "s.py", *args)
    assert done.code == 0, done.err
    return folder / name


def resumed(folder: Path, lacks: str) -> Divergence:
    first = read_recording(folder / "whole.json")
    return compare_recordings(first, read_recording(recorded(folder, f"{lacks}.json", lacks, "resume")))


@pytest.mark.parametrize("lacks", LACKS)
def test_what_a_checkpoint_lacks_is_named_and_nothing_else(folder: Path, lacks: str) -> None:
    found = resumed(folder, lacks)
    assert found.resumed is not None
    assert found.resumed.by_itself
    named = {one.kind.value for one in found.resumed.not_restored}
    assert named == LACKS[lacks], found.resumed


def test_a_run_that_restores_everything_equals_the_one_that_went_on(folder: Path, tracer: Command) -> None:
    found = resumed(folder, "nothing")
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (3, 0)
    assert found.agrees, found.roots
    assert found.resumed.not_restored == ()
    assert tracer("diff", folder / "whole.json", folder / "nothing.json", "--fail-on", "parted").code == 0

"""Processes that a program starts are told of; what runs no Python, a loader's workers and torch's own are not."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from tracer import DeterminismTracer
from tracer.names import BlindSpotKind, Training
from tracer.recording.process.children import runs_python


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ([sys.executable, "train.py"], True),
        (["python", "-m", "train"], True),
        (["/usr/bin/python3.12", "train.py"], True),
        (["torchrun", "--nproc-per-node", "2", "train.py"], True),
        (["/bin/sh", "-c", "cd run && python3 train.py"], True),
        ("accelerate launch train.py", True),
        (b"python", True),
        (["git", "describe"], False),
        (["nvidia-smi"], False),
        (["cat", "python_notes.txt"], False),
        (["ls", "/usr/lib/python3/dist-packages"], False),
        ([], False),
        (None, False),
    ],
)
def test_a_program_is_told_of_if_it_runs_python(command: Any, is_told: bool) -> None:
    assert runs_python(command) is is_told


def _nothing() -> None:
    pass


@pytest.mark.fresh_interpreter
def test_each_way_to_start_a_process_is_a_blind_spot_and_no_training() -> None:
    with DeterminismTracer() as tracer:
        torch.ones(2).sum()
        started = get_context("fork").Process(target=_nothing)
        started.start()
        started.join()
        subprocess.run([sys.executable, "-c", ""], check=True)
        subprocess.run(["true"], check=True)
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    told = [spot.detail for spot in tracer.trace.blind_spots if spot.kind is BlindSpotKind.OTHER_PROCESS]
    assert told == [
        "a process was started: its ops are not seen",
        "another Python program was started: its ops are not seen",
        "the process was forked: the child's ops are not seen",
    ]
    assert tracer.trace.training is Training.ELSEWHERE


@pytest.mark.fresh_interpreter
def test_what_starts_after_the_recording_is_not_told() -> None:
    with DeterminismTracer() as tracer:
        torch.ones(2).sum()
    subprocess.run([sys.executable, "-c", ""], check=True)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert tracer.trace.blind_spots == ()
    assert tracer.trace.training is Training.NONE


def test_workers_of_a_loader_are_no_other_processes() -> None:
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    with DeterminismTracer() as tracer:
        for batch in DataLoader([1.0, 2.0], num_workers=1):
            (batch * weight).sum().backward()
            optimizer.step()
    assert {spot.kind for spot in tracer.trace.blind_spots} == {BlindSpotKind.DATALOADER}
    assert tracer.trace.training is Training.RECORDED

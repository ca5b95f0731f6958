"""Processes that a program starts are told of; what runs no Python, a loader's workers and torch's own are not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
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


@pytest.mark.parametrize(
    ("part", "is_told"),
    [
        ("distributed/elastic/multiprocessing/subprocess_handler/handler.py", True),
        ("distributed/launch.py", True),
        ("_inductor/compile_worker/subproc_pool.py", False),
        ("utils/collect_env.py", False),
    ],
)
def test_of_the_programs_that_torch_starts_its_launchers_are_told(part: str, is_told: bool) -> None:
    path = os.path.join(os.path.dirname(torch.__file__), *part.split("/"))
    start = compile("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''], check=True)", path, "exec")
    with DeterminismTracer() as tracer:
        exec(start, {})
    assert tracer.trace.not_followed == is_told


def _nothing() -> None:
    pass


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


def _spawn() -> None:
    torch.multiprocessing.spawn(_index, nprocs=2)


def _index(index: int) -> None:
    pass


def _pool() -> None:
    with get_context("fork").Pool(3) as pool:
        pool.map(abs, range(3))


def _executor() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(abs, range(2)))


def _wait_for(child: int) -> None:
    os.waitpid(child, 0)


#: What a child does that computes, a little longer than one that only starts.
COMPUTES = "import time\nwhile time.process_time() < 0.8: pass"


@pytest.mark.parametrize(
    ("start", "number"),
    [
        pytest.param(_spawn, 2, id="mp.spawn", marks=pytest.mark.slow),
        pytest.param(_pool, 3, id="pool"),
        pytest.param(_executor, 2, id="executor"),
        pytest.param(lambda: os.system(f"{sys.executable} -c '{COMPUTES}'"), 1, id="os.system"),
        pytest.param(lambda: os.system("true"), 0, id="no Python"),
        pytest.param(
            lambda: _wait_for(os.posix_spawn(sys.executable, ["python", "-c", COMPUTES], dict(os.environ))),
            1,
            id="os.posix_spawn",
        ),
        pytest.param(
            lambda: subprocess.run([sys.executable, "-c", ""], close_fds=False, check=True),
            1,
            id="subprocess that spawns",
        ),
        pytest.param(
            lambda: subprocess.run([sys.executable, "-c", ""], preexec_fn=_nothing, check=True), 1, id="and that forks"
        ),
        pytest.param(lambda: list(DataLoader([1.0, 2.0], num_workers=2)), 0, id="loader"),
    ],
)
def test_processes_that_are_not_followed_are_counted_once_each(start: Callable[[], object], number: int) -> None:
    with DeterminismTracer() as tracer:
        start()
        assert tracer.trace.not_followed == number


def test_a_process_that_is_alive_as_recording_begins_is_told_once() -> None:
    tracer = DeterminismTracer()
    with get_context("fork").Pool(2) as pool:
        for _ in range(2):
            with tracer:
                pool.map(abs, range(2))
    assert tracer.trace.not_followed == 2
    assert {spot.detail for spot in tracer.trace.blind_spots} == {
        "a process was alive as recording began: its ops are not seen"
    }


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

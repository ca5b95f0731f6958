"""Processes that a program starts: told of, or recorded beside it; not a loader's workers."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from tracer import DeterminismTracer, Trace
from tracer.errors import UsageError
from tracer.names import BlindSpotKind, ChildState, StartedBy, Training
from tracer.recording.options import RecordOptions
from tracer.recording.process.children import runs_python
from tracer.recording.process.following import ChildTraces
from tracer.runner import child_processes
from tracer.trace.file import child_path, load_families, values_path
from tracer.trace.values import read_values


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ([sys.executable, "train.py"], True),
        (["/usr/bin/python3.12", "train.py"], True),
        (["torchrun", "--nproc-per-node", "2", "train.py"], True),
        (["/bin/sh", "-c", "cd run && python3 train.py"], True),
        ("accelerate launch train.py", True),
        (b"python", True),
        (["git", "describe"], False),
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


def _index(index: int) -> None:
    pass


def _pool() -> None:
    with get_context("fork").Pool(3) as pool:
        pool.map(abs, range(3))


def _python(**options: Any) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True, **options)


def _executor() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(abs, range(2)))


#: What a child does that computes, a little longer than one that only starts.
COMPUTES = "import time\nwhile time.process_time() < 0.8: pass"


@pytest.mark.parametrize(
    ("start", "number"),
    [
        pytest.param(lambda: torch.multiprocessing.spawn(_index, nprocs=2), 2, id="mp.spawn", marks=pytest.mark.slow),
        pytest.param(_pool, 3, id="pool"),
        pytest.param(_executor, 2, id="executor"),
        pytest.param(lambda: os.system(f"{sys.executable} -c '{COMPUTES}'"), 1, id="os.system"),
        pytest.param(lambda: os.system("true"), 0, id="no Python"),
        pytest.param(
            lambda: os.waitpid(os.posix_spawn(sys.executable, ["python", "-c", COMPUTES], dict(os.environ)), 0),
            1,
            id="os.posix_spawn",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda: _python(close_fds=False), 1, id="spawned by subprocess"),
        pytest.param(lambda: _python(preexec_fn=_nothing), 1, id="forked by it"),
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
    _pool()
    assert tracer.trace.blind_spots == ()
    assert tracer.trace.training is Training.NONE


def train(seed: int = 0) -> None:
    import torch

    torch.manual_seed(seed)
    weight = torch.rand(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        torch.zeros(3).index_add(0, torch.tensor([0, 0, 1]), weight).sum().backward()
        optimizer.step()


#: Once autograd has run beside a GPU, a forked child cannot run it.
trains_in_a_fork = pytest.mark.skipif(torch.cuda.is_available(), reason="beside a GPU a forked child cannot train")


def start(method: str) -> None:
    child = get_context(method).Process(target=train)
    child.start()
    child.join()
    assert child.exitcode == 0


def run_program(*flags: str) -> None:
    """``train`` as a program of its own, or nothing under ``flags``."""
    Path("train.py").write_text("pass" if flags else f"{inspect.getsource(train)}\ntrain()")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    subprocess.run([sys.executable, *flags, "train.py"], check=True, env=environment)


def fork() -> None:
    child = os.fork()
    if not child:
        try:
            train()
        except BaseException:  # nothing of the child's may go on in pytest
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("starts", "started_by"),
    [
        pytest.param(lambda: start("fork"), StartedBy.FORK, id="fork", marks=trains_in_a_fork),
        pytest.param(fork, StartedBy.FORK, id="os.fork", marks=trains_in_a_fork),
        pytest.param(lambda: start("spawn"), StartedBy.SPAWN, id="spawn", marks=pytest.mark.slow),
        pytest.param(run_program, StartedBy.PROGRAM, id="subprocess"),
    ],
)
def test_a_childs_training_is_recorded_reported_and_saved_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: Callable[[], None], started_by: StartedBy
) -> None:
    monkeypatch.chdir(tmp_path)
    with DeterminismTracer(children=True, values=True) as tracer:
        torch.ones(2).sum()
        starts()
    (child,) = tracer.trace.children
    assert (child.state, child.started_by, child.optimizer_steps) == (ChildState.RECORDED, started_by, 2)
    report = tracer.report("cuda")
    risky = {position for position, finding in enumerate(report.findings) if "index_add" in finding.op}
    assert risky
    assert not any(call.op.startswith("aten.index_add") for call in tracer.trace.calls)
    assert [bool(risky & set(process.findings)) for process in report.processes] == [False, True]
    assert report.judgement.trace.not_followed == 0
    path = tmp_path / "step.trace.json.gz"
    tracer.save(path)
    beside = child_path(path, child.role)
    first = 0 if started_by is StartedBy.PROGRAM else train.__code__.co_firstlineno - 1
    assert str(first + 8) in {call.location.rpartition(":")[2] for call in Trace.load(beside).calls}
    assert values_path(beside).is_file()
    assert sorted(source.optimizer_steps for trace in load_families([path]) for source in trace.sources) == [0, 2]


@trains_in_a_fork
def test_a_block_that_is_entered_again_goes_on_counting_its_children() -> None:
    tracer = DeterminismTracer(children=True)
    for _ in range(2):
        with tracer:
            start("fork")
        start("fork")
    assert [child.role for child in tracer.trace.children] == ["1", "2"]
    assert {child.state for child in tracer.trace.children} == {ChildState.RECORDED}


@trains_in_a_fork
def test_a_forked_child_leaves_the_block_as_it_would_have() -> None:
    tracer = DeterminismTracer(children=True)
    with tracer:
        child = os.fork()
        torch.ones(3).sum()
        if not child:
            train()
    if not child:
        with tracer:
            torch.ones(4).sum()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sum(call.count for call in tracer.trace.calls) == 2
    assert [own.state for own in tracer.trace.children] == [ChildState.RECORDED]


def test_what_cannot_be_followed_stays_a_blind_spot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with DeterminismTracer(children=True) as tracer:
        run_program("-I")
    assert [child.state for child in tracer.trace.children] == [ChildState.NOT_FOLLOWED]
    assert tracer.report().judgement.trace.not_followed == 1


@trains_in_a_fork
def test_children_that_another_recording_follows_stay_a_blind_spot_of_this_one() -> None:
    with DeterminismTracer(children=True) as outer, DeterminismTracer(children=True) as inner:
        start("fork")
    assert [child.state for child in outer.trace.children] == [ChildState.RECORDED]
    assert inner.trace.children == ()
    assert inner.trace.not_followed == 1


@trains_in_a_fork
def test_children_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "MOST_CHILDREN", 1)
    with DeterminismTracer(children=True) as tracer:
        for _ in range(3):
            start("fork")
    states = [(child.state, child.count) for child in tracer.trace.children]
    assert states == [(ChildState.RECORDED, 1), (ChildState.ONE_TOO_MANY, 2)]


@trains_in_a_fork
def test_the_environment_is_as_it_was_after_the_block() -> None:
    names = "import os; print(os.environ.get('PYTHONPATH'), 'TRACER_CHILDREN' in os.environ)"
    before = subprocess.run([sys.executable, "-c", names], capture_output=True, check=True).stdout
    with DeterminismTracer(children=True):
        start("fork")
    assert subprocess.run([sys.executable, "-c", names], capture_output=True, check=True).stdout == before


@pytest.mark.parametrize("options", [{"children": "all"}, {"children": True, "fake": True}])
def test_options_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="children"):
        DeterminismTracer(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "method", [pytest.param("fork", marks=trains_in_a_fork), pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_a_pools_worker_that_is_ended_between_two_tasks_leaves_a_whole_recording(tmp_path: Path, method: str) -> None:
    with DeterminismTracer(children=True, values=True) as tracer, get_context(method).Pool(1) as pool:
        pool.map(train, range(2), chunksize=1)
    tracer.save(tmp_path / "step.json")
    (source,) = Trace.load(tmp_path / "step.child-1.json").sources
    assert (source.optimizer_steps, source.partial) == (4, "")
    assert read_values(tmp_path / "step.child-1.values").partial == ""


@trains_in_a_fork
def test_a_pools_worker_that_is_ended_within_a_task_leaves_a_partial_one(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with DeterminismTracer(children=True) as tracer, get_context("fork").Pool(1) as pool:
        pool.map(train, [0])
        pool.apply_async(hang, [begun])
        while not begun.exists():
            time.sleep(0.01)
    tracer.save(tmp_path / "step.json")
    assert "killed" in Trace.load(tmp_path / "step.child-1.json").sources[0].partial


def hang(begun: Path) -> None:
    begun.touch()
    time.sleep(600)


#: Above every number that Linux gives to a process.
NO_PROCESS = 2**31 - 1


@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        ([("begins", NO_PROCESS)], False),
        ([("begins", os.getppid())], True),
        ([("starts", 0)], True),
        ([("starts", 0), ("begins", NO_PROCESS)], False),
    ],
    ids=["ended", "running", "not yet begun", "begun and ended"],
)
def test_what_a_job_of_killed_processes_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[tuple[str, int]], is_kept: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "tracer-left"
    left.mkdir()
    (left / "left").touch()
    (left / "log").write_text("".join(f'{{"role":"1","event":"{event}","pid":{pid}}}\n' for event, pid in lines))
    ChildTraces(None, RecordOptions()).remove()
    assert [path.name for path in tmp_path.iterdir()] == (["tracer-left"] if is_kept else [])

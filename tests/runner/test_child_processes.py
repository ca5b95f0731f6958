"""Processes that a script starts, recorded beside it: whatever starts them, and whatever becomes of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, PLAIN, process, tracer_process
from tests.support.slow import slow_unless
from tracer.divergence.families import parts_of, read_family
from tracer.names import BlindSpotKind, ChildState, SeedOrigin, StartedBy, Training
from tracer.recording.process import following as process_following
from tracer.recording.process.following import Following, children_of
from tracer.runner.outcome import ScriptRecording
from tracer.runner.script import StepRange, Task
from tracer.trace import Trace
from tracer.trace.file import load_families
from tracer.trace.records import Child, Generator
from tracer.trace.values import ValueKind, read_values

TRAINING = """
import torch

def train(seed=0, steps=2):
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.rand(8, 4)).sum().backward()
        optimizer.step()
    print(seed, model.weight.detach().sum().item())
"""
START = """
import multiprocessing, multiprocessing.util, os, signal, subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor
import training

def hang(path):
    training.train()
    with open(path, "w"):
        time.sleep(600)

def hang_at_exit(path):
    training.train()
    open(path, "w").close()
    multiprocessing.util.Finalize(None, time.sleep, (600,), exitpriority=100)

if __name__ == "__main__":
    print(os.environ.get("PYTHONPATH"), "TRACER_CHILDREN" in os.environ, flush=True)
"""
PROCESS = """
    child = multiprocessing.get_context({method!r}).Process(target=training.train, args=({seed},))
    child.start()
    child.join()
    print(child.exitcode)
"""
POOL = """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        pool.submit(training.train).result()
"""
FORK = """
    if os.fork() == 0:
        training.train()
        sys.stdout.flush()
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
PROGRAM = """
    code = "import os; print(os.environ.get('PYTHONPATH'), len(os.environ)); import training; training.train()"
    subprocess.run([sys.executable, "-c", code], check=True)
"""
EMPTY_ENVIRONMENT = """
    code = "import os; print({*os.environ} - {'LC_CTYPE'}); import training; training.train()"
    subprocess.run([sys.executable, "-c", code], env={}, check=True)
"""
KILLED = """
    child = multiprocessing.get_context("spawn").Process(target={target}, args=("trained",))
    child.start()
    while not os.path.exists("trained"):
        time.sleep(0.01)
    child.kill()
    child.join()
    os.unlink("trained")
    print(child.exitcode)
"""
TORCHRUN = """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "rank.py"]
    sys.exit(subprocess.run(command).returncode)
"""
RANK = """
import torch
from training import train

train()
"""
SHORT = """
    for _ in range(200):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
"""
THREADS = """
    import threading

    def run(seed):
        code = f"import training; training.train({seed})"
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
POOL_IN_CHILD = """
    def pooled():
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(training.train, range(2), chunksize=1)

    child = multiprocessing.get_context("fork").Process(target=pooled)
    child.start()
    child.join()
"""
ELSEWHERE = """
    code = f"import sys; sys.path.insert(0, {os.getcwd()!r}); import training; training.train()"
    os.mkdir("elsewhere") if not os.path.exists("elsewhere") else None
    subprocess.run([sys.executable, "-c", code], cwd="elsewhere", check=True)
"""
EXEC = """
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import training; training.train()"])
    os.wait()
    import torch
    if os.fork() == 0:
        training.train()
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-c", "import training; training.train()"], dict(os.environ))
    os.wait()
"""
DAEMON_AND_EXIT = """
    child = multiprocessing.get_context("spawn").Process(target=hang, args=("trained",), daemon=True)
    child.start()
    while not os.path.exists("trained"):
        time.sleep(0.01)
    os.unlink("trained")
    training.train()
    sys.stdout.flush()
"""
INFERENCE = """
    code = "import torch; print(torch.nn.Linear(2, 2).requires_grad_(False)(torch.ones(1, 2)).shape)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def prepared(folder: Path) -> Path:
    (folder / "training.py").write_text(TRAINING)
    (folder / "rank.py").write_text(RANK)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepared(tmp_path)


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recording with one child, which trains and has a finding on CUDA."""
    folder = prepared(tmp_path_factory.mktemp("spawned"))
    risky = "    torch.zeros(3).index_add_(0, torch.tensor([0, 0]), torch.tensor([0.1, 0.2]))\n    for _ in"
    (folder / "training.py").write_text(TRAINING.replace("    for _ in", risky))
    same_with_and_without(folder, PROCESS.format(method="spawn", seed=0))
    return folder


def same_with_and_without(folder: Path, script: str) -> Trace:
    """The trace of ``script``, whose output and exit code are the same with its children recorded and without."""
    (folder / "start.py").write_text(START + script)
    plain = process("start.py", cwd=folder)
    done = tracer_process("run", "--children", "start.py", cwd=folder)
    assert (done.code, sorted(done.out.split())) == (plain.code, sorted(plain.out.split())), done.err
    return Trace.load(folder / "trace.json")


def lines_of(folder: Path, role: str) -> set[str]:
    return {call.location for call in Trace.load(folder / f"trace.child-{role}.json").calls}


JOBS = [
    pytest.param(PROCESS.format(method="fork", seed=0), StartedBy.FORK, "1", id="fork"),
    pytest.param(PROGRAM, StartedBy.PROGRAM, "1", id="subprocess"),
    pytest.param(PROCESS.format(method="forkserver", seed=0), StartedBy.FORKSERVER, "1.1", id="forkserver"),
    pytest.param(POOL, StartedBy.POOL, "1", id="pool"),
    pytest.param(FORK, StartedBy.FORK, "1", id="os.fork"),
    pytest.param(EMPTY_ENVIRONMENT, StartedBy.PROGRAM, "1", id="empty-environment"),
    pytest.param(TORCHRUN, StartedBy.PROGRAM, "1.2", id="torchrun"),
]


@pytest.mark.parametrize(("script", "started_by", "role"), JOBS)
@pytest.mark.slow
def test_a_childs_training_is_recorded_with_lines(folder: Path, script: str, started_by: StartedBy, role: str) -> None:
    trace = same_with_and_without(folder, script)
    child = next(child for child in trace.children if child.role == role)
    assert (child.state, child.started_by, child.optimizer_steps) == (ChildState.RECORDED, started_by, 2)
    assert "training.py:10" in lines_of(folder, role)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "steps"),
    [
        pytest.param(THREADS, [2, 2, 2], id="threads"),
        pytest.param(POOL_IN_CHILD, [4], id="pool-in-child"),
        pytest.param(ELSEWHERE, [2], id="elsewhere"),
        pytest.param(EXEC, [2, 2, 2], id="exec"),
    ],
)
def test_no_process_of_children_threads_and_exec_is_missed(folder: Path, script: str, steps: list[int]) -> None:
    same_with_and_without(folder, script)
    traces = load_families([folder / "trace.json"])
    trained = [source.optimizer_steps for trace in traces for source in trace.sources if source.optimizer_steps]
    assert trained == steps
    assert not any(trace.partial for trace in traces)
    assert sum(trace.not_followed for trace in traces) == 0


@pytest.mark.slow
def test_a_child_that_infers_leaves_a_trace_and_the_job_is_an_inference(folder: Path) -> None:
    (child,) = same_with_and_without(folder, INFERENCE).children
    assert (child.state, child.optimizer_steps) == (ChildState.RECORDED, 0)
    assert {trace.training for trace in load_families([folder / "trace.json"]) if trace.call_count} == {
        Training.INFERENCE
    }


@pytest.mark.slow
def test_a_child_that_trains_after_the_first_process_ended_is_recorded(folder: Path) -> None:
    code = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.05)
import training
training.train()
"""
    (folder / "start.py").write_text(
        f"import subprocess, sys\nnowhere = subprocess.DEVNULL\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}], stdout=nowhere, stderr=nowhere)\n"
    )
    assert tracer_process("run", "--children", "start.py", cwd=folder).code == 0
    (folder / "go").touch()
    begun = time.monotonic()
    while not (folder / "trace.child-1.json").exists() or Trace.load(folder / "trace.child-1.json").partial:
        assert time.monotonic() - begun < PATIENCE
        time.sleep(0.1)
    first = next(trace for trace in load_families([folder / "trace.json"]) if trace.children)
    assert [child.state for child in first.children] == [ChildState.RECORDED]
    assert first.not_followed == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.slow
def test_a_child_that_fails_says_how(folder: Path, method: str) -> None:
    (child,) = same_with_and_without(folder, PROCESS.format(method=method, seed="'x'")).children
    assert (child.state, child.ended_by) == (ChildState.UNTRAINED, "exit code 1")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["hang", "hang_at_exit"])
def test_a_child_that_hangs_and_is_killed_leaves_what_it_had(folder: Path, target: str) -> None:
    (child,) = same_with_and_without(folder, KILLED.format(target=target)).children
    (source,) = Trace.load(folder / "trace.child-1.json").sources
    assert child.state is ChildState.RECORDED
    assert source.optimizer_steps == 2
    assert "killed" in source.partial


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="returns"),
        pytest.param("child.terminate(); child.join(); os._exit(5)", id="os._exit"),
        pytest.param(
            "child.kill(); child.join(); threading.Thread(target=os._exit, args=(5,)).start(); time.sleep(600)",
            id="os._exit in a thread",
        ),
    ],
)
def test_a_job_that_leaves_daemons_is_whole(folder: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    (temporary := folder / "temporary").mkdir()
    monkeypatch.setitem(PLAIN, "TMPDIR", str(temporary))
    monkeypatch.setitem(PLAIN, "PYTHONDONTWRITEBYTECODE", "1")  # a flag of each process of ``multiprocessing``
    trace = same_with_and_without(folder, f"{DAEMON_AND_EXIT}    import threading\n    {end}\n")
    assert [child.state for child in trace.children] == [ChildState.RECORDED]
    assert [(source.optimizer_steps, source.partial) for source in trace.sources] == [(2, "exit code 5" if end else "")]
    assert not list(temporary.glob("tracer-*"))


@pytest.mark.slow
def test_two_hundred_children_without_torch_are_one_line_and_no_blind_spot(folder: Path) -> None:
    (child,) = same_with_and_without(folder, SHORT).children
    assert (child.state, child.count) == (ChildState.WITHOUT_TORCH, 200)
    (trace,) = load_families([folder / "trace.json"])
    assert trace.not_followed == 0


@pytest.mark.slow
@pytest.mark.parametrize("loads", ["", "import training"], ids=["without torch", "with torch"])
@pytest.mark.parametrize(
    "start",
    [
        "with ProcessPoolExecutor(2, mp_context=spawning) as pool: list(pool.map(simulating.simulate, range(4)))",
        "with spawning.Pool(2) as pool: pool.map(simulating.simulate, range(4))",
        "run(spawning, simulating.simulate)",
        "run(multiprocessing.get_context('forkserver'), simulating.simulate)",
        "subprocess.run([sys.executable, '-c', 'import simulating; simulating.simulate(1)'], check=True)",
    ],
    ids=["executor", "pool", "process", "forkserver", "program"],
)
def test_a_child_that_draws_unseeded_is_a_blind_spot_at_its_line(folder: Path, start: str, loads: str) -> None:
    (folder / "simulating.py").write_text(
        f"{loads}\nimport numpy\n\ndef simulate(x):\n    return x + numpy.random.rand()\n"
    )
    script = f"""
import multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import simulating

def run(context, task):
    started = context.Process(target=task, args=(1,))
    started.start()
    started.join()

if __name__ == "__main__":
    import torch
    spawning = multiprocessing.get_context("spawn")
    torch.ones(2).sum()
    {start}
"""
    (folder / "start.py").write_text(script)
    done = tracer_process("run", "--children", "start.py", cwd=folder)
    assert done.code == 0, done.err
    (trace, *_) = load_families([folder / "trace.json"])
    line = "start.py:8" if start.startswith("run") else f"start.py:{script.splitlines().index('    ' + start) + 1}"
    assert [spot.location for spot in trace.blind_spots if spot.kind is BlindSpotKind.OTHER_PROCESS] == [line]


@pytest.mark.parametrize(
    ("state", "generators", "is_followed"),
    [
        (ChildState.WITHOUT_TORCH, (), True),
        (ChildState.WITHOUT_TORCH, (Generator(name="python", origin=SeedOrigin.UNSEEN),), False),
        (ChildState.UNTRAINED, (Generator(name="numpy", origin=SeedOrigin.MACHINE, drew=False),), True),
        (ChildState.UNTRAINED, (Generator(name="numpy", origin=SeedOrigin.PROGRAM, drew=True),), True),
        (ChildState.UNTRAINED, (Generator(name="numpy", origin=SeedOrigin.MACHINE, drew=True),), False),
        (ChildState.UNTRAINED, (Generator(name="numpy-objects", origin=SeedOrigin.MACHINE, drew=True),), False),
        (ChildState.UNTRAINED, (Generator(name="cpu", origin=SeedOrigin.MACHINE),), True),
        (ChildState.RECORDED, (Generator(name="numpy", origin=SeedOrigin.MACHINE, drew=True),), True),
    ],
)
def test_a_child_is_followed_unless_it_may_have_drawn_what_differs_in_every_run(
    state: ChildState, generators: tuple[Generator, ...], is_followed: bool
) -> None:
    assert Child(role="1", started_by=StartedBy.POOL, state=state, generators=generators).is_followed is is_followed


def test_a_child_without_a_step_that_computed_is_not_called_followed() -> None:
    assert not Child(role="1", started_by=StartedBy.SPAWN, state=ChildState.UNTRAINED, calls=3).is_followed


@pytest.mark.parametrize(
    ("code", "loaded"),
    [("import json", []), ("import numpy.random", ["numpy", "python"]), ("import random, os; os.fork()", ["python"])],
)
def test_a_child_without_torch_says_which_generators_it_loaded(tmp_path: Path, code: str, loaded: list[str]) -> None:
    (tmp_path / "log").touch()
    bootstrap = Path(process_following.__file__).with_name("bootstrap")
    role = {"PYTHONPATH": str(bootstrap), "TRACER_CHILDREN": f"1:{tmp_path}"}
    assert process("-c", code, cwd=tmp_path, **role).code == 0
    children = children_of(Following().events(str(tmp_path)), lambda role: False)
    assert {child.state for child in children} == {ChildState.WITHOUT_TORCH}
    assert [[each.name for each in child.generators] for child in children] == [loaded] * (2 if "fork" in code else 1)


def test_a_process_that_is_started_with_bytes_as_its_environment_is_followed(tmp_path: Path) -> None:
    following = Following()
    following.folder, following._next.role = str(tmp_path), "7"
    passed = (*"abcde", [b"A=b=\xff", b"PYTHONPATH=own"])
    environment = following._passing_on("fork_exec", lambda *arguments: arguments[5], passed, {})
    assert environment[0] == b"A=b=\xff"
    assert environment[1].endswith(b"bootstrap:own")
    assert environment[2] == f"TRACER_CHILDREN=7:{tmp_path}".encode()


@pytest.mark.slow
def test_workers_of_loky_are_recorded_task_by_task(folder: Path) -> None:
    pytest.importorskip("joblib")
    script = """
    import joblib
    joblib.Parallel(n_jobs=2)(joblib.delayed(training.train)(seed) for seed in range(3))
"""
    (folder / "start.py").write_text(START + script)
    done = tracer_process("run", "--children", "--values", "start.py", cwd=folder)
    assert done.code == 0, done.err
    children = [child for child in Trace.load(folder / "trace.json").children if child.optimizer_steps]
    assert sum(child.optimizer_steps for child in children) == 6
    assert {child.started_by for child in children} == {StartedBy.POOL}
    recordings = [read_values(folder / f"trace.child-{child.role}.values") for child in children]
    kinds = [values.names[at].kind for values in recordings for at in values.moments.name]
    assert kinds.count(ValueKind.TASK) == 3


def test_every_task_of_a_pool_that_is_ended_is_compared(folder: Path) -> None:
    script = """
    import torch
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.imap_unordered(torch.ones(9).mul, range(300))).sum().item())
"""
    (folder / "start.py").write_text(START + script)
    done = tracer_process("run", "--children", "--values", "start.py", cwd=folder)
    assert done.code == 0, done.err
    family = read_family(folder / "trace.json")
    assert {*family} == {"", "1", "2"}
    assert sum(len(each) for task, each in parts_of(family).items() if task) == 300


@pytest.mark.parametrize("flag", slow_unless({"-I"}, ["-I", "-E", "-S"]))
def test_a_python_that_passes_the_bootstrap_by_is_not_followed(folder: Path, flag: str) -> None:
    trace = same_with_and_without(
        folder, f"\n    subprocess.run([sys.executable, {flag!r}, '-c', 'pass'], check=True)\n"
    )
    assert [child.state for child in trace.children] == [ChildState.NOT_FOLLOWED]
    assert sum(loaded.not_followed for loaded in load_families([folder / "trace.json"])) == 1


def test_another_sitecustomize_runs_in_the_child(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("print('sitecustomize of the program')\n")
    (folder / "start.py").write_text(START + "    subprocess.run([sys.executable, '-c', 'pass'], check=True)\n")
    done = tracer_process("run", "--children", "start.py", cwd=folder, PYTHONPATH=str(folder))
    assert done.out.count("sitecustomize of the program") == 2


def test_loader_workers_are_a_line_with_their_draws(folder: Path) -> None:
    script = """
    import torch

    class Noise(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return torch.rand(2)

    for _ in torch.utils.data.DataLoader(Noise(), num_workers=2):
        pass
"""
    children = same_with_and_without(folder, script).children
    assert {(child.started_by, child.state) for child in children} == {(StartedBy.LOADER, ChildState.UNTRAINED)}
    assert sum(draw.count for child in children for draw in child.draws) == 4
    assert load_families([folder / "trace.json"])[0].not_followed == 0


def test_the_report_takes_in_the_child_with_its_lines_and_findings(spawned: Path) -> None:
    (child,) = Trace.load(spawned / "trace.json").children
    assert (child.state, child.started_by, child.optimizer_steps) == (ChildState.RECORDED, StartedBy.SPAWN, 2)
    assert "training.py:11" in lines_of(spawned, "1")
    done = tracer_process("report", "trace.json", "--backend", "cuda", "--format", "json", cwd=spawned)
    report = json.loads(done.out)
    at_risk = [number for number, finding in enumerate(report["judgement"]["findings"]) if "index_add" in finding["op"]]
    first, second = report["processes"]
    assert "findings" not in first
    assert at_risk
    assert set(at_risk) <= set(second["findings"])
    assert len(load_families(sorted(spawned.glob("trace*.json")))) == 2  # each once, though the child is named too


def test_of_a_child_whose_trace_is_gone_nothing_is_claimed(spawned: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes((spawned / "trace.json").read_bytes())
    (trace,) = load_families([tmp_path / "trace.json"])
    assert [spot.count for spot in trace.blind_spots if spot.kind is BlindSpotKind.OTHER_PROCESS] == [1]


RAY = """
import ray

@ray.remote
class Trainer:
    def train(self, seed):
        import training
        training.train(seed)

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
actors = [Trainer.remote() for _ in range(2)]
for _ in range(2):
    ray.get([actor.train.remote(number) for number, actor in enumerate(actors)])
print("done")
ray.shutdown()
"""


@pytest.mark.slow
def test_actors_of_ray_are_recorded(folder: Path) -> None:
    pytest.importorskip("ray")
    (folder / "start.py").write_text(RAY)
    done = tracer_process(
        "run", "--children", "start.py", cwd=folder, RAY_AUTH_MODE="disabled", RAY_worker_niceness="0"
    )
    assert (done.code, done.out) == (0, "done\n"), done.err
    trained = [trace for trace in load_families([folder / "trace.json"]) if trace.call_count]
    assert [trace.sources[0].optimizer_steps for trace in trained] == [4, 4]
    assert [trace.partial for trace in trained] == ["", ""]
    assert all("training.py:10" in {call.location for call in trace.calls} for trace in trained)


@pytest.mark.parametrize(
    ("steps", "reason"), [(3, ""), (0, "the script ended after 0 optimizer steps, before 1:2 was over")]
)
def test_a_parent_that_waits_for_children_that_train_is_whole(tmp_path: Path, steps: int, reason: str) -> None:
    output = tmp_path / "t.json"
    recording = ScriptRecording(Task(target="waits.py", steps=StepRange(1, 2)), output)
    child = Child(role="1", started_by=StartedBy.SPAWN, state=ChildState.RECORDED, optimizer_steps=steps)
    recording.children = lambda: (child,)
    said = recording.finish()  # torch is imported for a trace of nothing
    assert Trace.load(output).partial == reason
    assert ("never over" in said) is bool(reason)

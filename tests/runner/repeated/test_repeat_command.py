"""``tracer repeat``: exit codes, what stays in the folder, and what is said, of scripts that a user could have."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import Command, process
from tests.support.slow import slow_unless
from tracer.runner.repeated import repeating
from tracer.runner.script import Task
from tracer.trace import Trace

PARTS = """\
import os, torch
factor = int.from_bytes(os.urandom(4), "big")
print("epoch", factor > -1)
x = torch.ones(4) * factor
"""
AGREES = "import sys, torch\ntorch.manual_seed(0)\nx = torch.rand(4) * len(sys.argv)\n"


def test_runs_that_part_exit_with_1_and_leave_recordings_json_and_a_page(tracer: Command, tmp_path: Path) -> None:
    Path("parts.py").write_text(PARTS)
    done = tracer("repeat", "--format", "text,json,html", "-o", "out", "parts.py")
    assert done.code == 1, done.err
    assert "Run 2 diverges from run 1 in step " in " ".join(done.out.split())
    assert "parts.py:4 (aten.mul.Tensor), by one of its arguments" in " ".join(done.out.split())
    assert done.out.count("epoch True") == 2  # runs whose values are kept, or that are given some, are not heard
    assert "(parts.py:2) takes random numbers from the system" in " ".join(done.out.split())
    assert "Given one run's values there, another agrees with it." in " ".join(done.out.split())
    runs = {"run-1", "run-2", "run-kept", "run-given-1"}  # a short script's first two runs follow its lines already
    kept = {f"{name}.{kind}" for name in runs for kind in ("json", "values", "lines")}
    kept |= {"repeat.html", "repeat.json"}
    assert {one.name for one in Path("out").iterdir()} == kept
    told = json.loads(Path("out/repeat.json").read_text())
    assert (told["agrees"], told["first"]["location"], told["first"]["cause"]) == (False, "parts.py:4", "argument")
    page = Path("out/repeat.html").read_text(encoding="utf-8")
    assert "<h1>" in page
    assert page.index("parts.py:2") < page.index("Run 2 diverges from run 1") < page.index("What to change")
    assert tracer("report", "out/run-1.json").code == 0


def test_runs_that_agree_exit_with_0_and_nobody_calls_it_a_proof(tracer: Command) -> None:
    told = "print(f'{sys.getswitchinterval():.3f}', file=sys.stderr)\n"  # which is not compared
    Path("agrees.py").write_text(AGREES + told)
    done = tracer("repeat", "agrees.py", "--epochs", "1")
    assert done.code == 0, done.err
    assert "2 runs agree in all" in done.out
    assert "Agreement proves nothing" in done.out
    assert Path("repeat/run-2.values").is_file()
    # Every run but the first switches threads at another interval.
    assert [line for line in done.err.splitlines() if line.startswith("0.")] == ["0.005", "0.001"]


@pytest.mark.slow
def test_a_module_runs_by_its_name_and_steps_are_chosen(tracer: Command) -> None:
    Path("pack").mkdir()
    Path("pack/__init__.py").touch()
    Path("pack/train.py").write_text(
        "import torch\ntorch.manual_seed(0)\np = torch.zeros(2, requires_grad=True)\n"
        "o = torch.optim.SGD([p], 0.1)\nfor _ in range(3):\n    p.sum().backward()\n    o.step()\n"
    )
    done = tracer("repeat", "--steps", "1:2", "--exit-after-steps", "-m", "pack.train")
    assert done.code == 0, done.err
    trace = json.loads(Path("repeat/run-1.json").read_text())
    assert trace["sources"][0]["optimizer_steps"] == 1


def test_runs_without_a_call_are_not_said_to_agree(tracer: Command) -> None:
    Path("says.py").write_text("print('hello')\n")
    done = tracer("repeat", "says.py")
    assert done.code == 3
    assert "2 runs made no call that could be compared." in done.out
    assert "tracer: no call was compared, so nothing is known of the runs" in done.err
    recordings = ("repeat/run-1.json", "repeat/run-2.json")
    assert tracer("diff", *recordings, "--fail-on", "parted").code == 1


@pytest.mark.slow
def test_a_script_that_fails_alike_in_both_runs_has_a_code_of_its_own(tracer: Command) -> None:
    Path("fails.py").write_text("import torch\nx = torch.ones(2) * 2\nraise ValueError('its own words')\n")
    done = tracer("repeat", "fails.py")
    assert done.code == 4
    assert "tracer: run 1 ended with exit code 1" in done.err
    assert "2 runs agree in the calls that both made before they failed" in " ".join(done.out.split())


STARTS_BEFORE_TORCH = """\
import multiprocessing

def train(index):
    pass

if __name__ == "__main__":
    children = [multiprocessing.get_context("fork").Process(target=train, args=(index,)) for index in range(3)]
    for child in children:
        child.start()
    import torch
    x = torch.ones(4) * 2
    for child in children:
        child.join()
"""


def test_processes_that_nobody_follows_are_told_and_the_exit_code_is_3(tracer: Command) -> None:
    Path("starts.py").write_text(STARTS_BEFORE_TORCH)
    done = tracer("repeat", "--no-children", "--format", "text,json,html", "starts.py")
    assert done.code == 3, done.err
    assert "2 runs agree in all 2 calls; 3 processes were started and not followed." in " ".join(done.out.split())
    assert "processes were started and not followed" in done.err
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert (told["agrees"], told["not_followed"]) == (True, 3)
    assert "3 processes were started and not followed" in Path("repeat/repeat.html").read_text(encoding="utf-8")


TRAINS_IN_A_THREAD = """
import os, sys, threading
import torch

torch.manual_seed(0)
weight = torch.ones(3, requires_grad=True)
model = torch.nn.Linear(3, 1)

def train():
    unknown = 1 + os.getpid() % 1000 if "differs" in sys.argv else 1
    if "module" in sys.argv:
        local = model(torch.ones(1, 3)).sum()
        parameters = list(model.parameters())
    else:
        local, parameters = weight.pow(2).sum(), [weight]
    for parameter, gradient in zip(parameters, torch.autograd.grad(local, parameters)):
        with torch.no_grad():
            parameter.sub_(gradient / unknown)

thread = threading.Thread(target=train)
thread.start()
thread.join()
torch.ones(2) * 2
"""


@pytest.mark.parametrize("what", [pytest.param("module", marks=pytest.mark.slow), "tensor"])
def test_what_a_thread_trains_is_compared_and_never_said_to_agree_alone(tracer: Command, what: str) -> None:
    Path("trains.py").write_text(TRAINS_IN_A_THREAD)
    done = tracer("repeat", "--no-hold", "--format", "text,json", "trains.py", what)
    assert done.code == 3, done.err
    assert "1 thread computed and was not followed" in " ".join(done.out.split())
    document = json.loads(Path("repeat/repeat.json").read_text())
    assert (document["agrees"], document["threads_not_followed"], document["ends"]) == (True, 1, [])
    done = tracer("repeat", "--no-hold", "--format", "json", "trains.py", what, "differs")
    assert done.code == 1, done.err
    document = json.loads(Path("repeat/repeat.json").read_text())
    assert not document["agrees"]
    assert {end["kind"] for end in document["ends"]} == {"parameter"}


@pytest.mark.slow
def test_workers_of_a_loader_leave_the_exit_code_at_0(tracer: Command) -> None:
    Path("loads.py").write_text(
        "import torch\ntorch.manual_seed(0)\n"
        "for batch in torch.utils.data.DataLoader(torch.arange(4.0), num_workers=1):\n    batch * 2\n"
    )
    done = tracer("repeat", "--format", "json", "loads.py")
    assert done.code == 0, done.err
    assert json.loads(Path("repeat/repeat.json").read_text())["not_followed"] == 0


def test_a_script_that_cannot_begin_is_refused_in_one_line_and_not_run_again(tracer: Command) -> None:
    Path("broken.py").write_text("def (:\n")
    done = tracer("repeat", "broken.py")
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "run 2" not in done.err


@pytest.mark.slow
def test_under_the_plans_settings_what_parted_agrees_and_one_sentence_says_both(tracer: Command) -> None:
    Path("unseeded.py").write_text("import random\nimport torch\nx = torch.ones(4) + random.random()\n")
    done = tracer("repeat", "--settings", "planned", "--format", "text,json", "unseeded.py")
    assert done.code == 0, done.err + done.out
    said = " ".join(done.out.split())
    assert "As you have it: Run 2 diverges from run 1" in said
    assert "at unseeded.py:3 (aten.add.Tensor), by one of its arguments" in said
    assert "Under the plan: 2 runs agree in all" in said
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert told["agrees"]
    assert told["sets"] == {"seed.python": True}
    assert not told["as_it_stands"]["agrees"]
    assert Path("repeat/planned-2.values").is_file()


@pytest.mark.slow
def test_a_rank_keeps_its_runs_in_a_folder_of_its_own(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agrees.py").write_text(AGREES)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert tracer("repeat", "agrees.py").code == 0
    assert Path("repeat/rank1/run-2.values").is_file()


def test_a_job_whose_ranks_never_meet_is_refused_in_one_line(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agrees.py").write_text(AGREES)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    done = tracer("repeat", "agrees.py")
    assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    assert "MASTER_PORT is 0" in done.err
    assert not Path("repeat").exists()


@pytest.mark.slow
def test_threads_and_the_hash_seed_are_varied_by_variables(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        "import torch\nx = torch.ones(4) * (hash('word') % 1000)\ny = torch.zeros(2) + torch.get_num_threads()\n"
    )
    done = process(
        *("repeat", "--vary", "threads,hash-seed", "--format", "json", "hangs.py"),
        cwd=tmp_path,
        module=True,
        PYTHONHASHSEED="3",
        OMP_NUM_THREADS="2",
        PYTHONPATH=os.environ.get("PYTHONPATH", str(Path.cwd())),
    )
    assert done.code == 1, done.err
    told = json.loads((tmp_path / "repeat/repeat.json").read_text())
    assert {one["location"]: one["arms"] for one in told["roots"]} == {
        "hangs.py:2": ["hash-seed"],
        "hangs.py:3": ["threads"],
    }


@pytest.mark.slow
def test_runs_that_agree_are_judged_only_for_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("import torch\n\ntorch.ones(2).sum()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    judged: list[Trace] = []
    monkeypatch.setattr(repeating, "judge", judged.append)
    found = repeating.repeat_script(repeating.Asked(task=Task(target="train.py"), folder=tmp_path / "runs"))
    assert found.repeated.agrees
    assert not judged
    found.report()
    assert len(judged) == 1


@pytest.mark.parametrize(
    "command",
    slow_unless(
        [["run", "--lines"]], [["run"], ["run", "--values"], ["run", "--lines"], ["repeat", "--hold", "memory"]]
    ),
)
def test_the_first_line_of_a_script_finds_neither_torch_nor_numpy_loaded(tmp_path: Path, command: list[str]) -> None:
    """Both read variables as they load, which scripts set in their first lines (``OPENBLAS_NUM_THREADS``)."""
    text = 'import sys\nwith open("loaded", "a") as f:\n    print(*{"numpy", "torch"} & set(sys.modules), file=f)\n'
    (tmp_path / "first.py").write_text(text + "import torch\ntorch.ones(2).sum()\n", encoding="utf-8")
    done = process(*command, "first.py", cwd=tmp_path, module=True)
    assert done.code == 0, done.err
    assert not (tmp_path / "loaded").read_text().strip()


def test_the_process_of_a_run_starts_without_torch_and_numpy() -> None:
    code = "import sys, tracer.runner.repeated.child; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    found = process("-c", code, cwd=Path(__file__).parents[3])
    assert found.out.strip() == "[]", found.err


_SHARDED = """
import os, sys, tempfile
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

store = os.path.join(tempfile.mkdtemp(), "store")
dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
fully_shard(model[0])
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for step in range(2):
    inputs = torch.ones(4, 6) * (1 + (os.getpid() % 97 if "fault" in sys.argv and step else 0))
    model(inputs).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("argument", ["", "fault"])
def test_equal_runs_of_sharded_parameters_agree_and_a_fault_in_them_is_found(tmp_path: Path, argument: str) -> None:
    if not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("this torch has its fully_shard elsewhere")
    (tmp_path / "sharded.py").write_text(_SHARDED, encoding="utf-8")
    command = ("repeat", "--runs", "2", "--no-hold", "--format", "json", "-o", "runs", "sharded.py")
    done = process(*command, *([argument] if argument else []), cwd=tmp_path, module=True)
    answer = json.loads((tmp_path / "runs" / "repeat.json").read_text(encoding="utf-8"))
    assert done.code == bool(argument)
    assert "unwritten-memory" not in {root["cause"] for root in answer["roots"]}
    assert answer["agrees"] is not bool(argument)

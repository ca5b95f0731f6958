"""Traces of several ranks: what differs between them, what drifts as values show, and that equal ones are equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import call, environment, trace
from tests.support.command import PLAIN, SCRIPTS, Command, ranks
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import read_recording
from tracer.trace import Trace
from tracer.trace.records import TraceSource


def save(rank: int, *calls: object, folder: Path, **fields: object) -> Path:
    source = TraceSource(name="train.py", rank=rank, world_size=2, calls=1)
    path = folder / f"t.rank{rank}.json"
    trace(*calls, sources=(source,), **fields).save(path)  # type: ignore[arg-type]
    return path


def test_what_differs_is_named_in_text_and_json(tmp_path: Path, tracer: Command) -> None:
    paths = [
        save(rank, call(count=3 + rank), folder=tmp_path, environment=environment(num_threads=4 + rank))
        for rank in (0, 1)
    ]
    text = " ".join(tracer("report", *paths).out.split())
    assert "No two ranks agree: ranks 0 and 1 differ." in text
    assert "num_threads: 4 on rank 0; 5 on rank 1" in text
    assert "aten.index_add_ forward at train.py:10 (net.fc): 3 calls on rank 0; 4 calls on rank 1" in text
    said = json.loads(tracer("report", *paths, "--format", "json").out)["ranks"]
    assert said["settings"] == [{"name": "num_threads", "values": ["4", "5"]}]
    assert said["calls"][0]["counts"] == [3, 4]


def test_one_trace_says_nothing_of_ranks(tmp_path: Path, tracer: Command) -> None:
    path = save(0, folder=tmp_path)
    assert "\nRanks\n" not in tracer("report", path).out
    assert "ranks" not in json.loads(tracer("report", path, "--format", "json").out)


@pytest.mark.parametrize("apart", ["", pytest.param("apart", marks=pytest.mark.slow)])
def test_two_ranks_of_a_job_are_compared(tmp_path: Path, tracer: Command, apart: str) -> None:
    line = ("run", "-o", "t.json", "--steps", "1:2", SCRIPTS / "two_ranks.py", *([apart] if apart else []))
    for done in ranks(*line, cwd=tmp_path):
        assert done.code == 0, done.err
    files = [tmp_path / f"t.rank{rank}.json" for rank in (0, 1)]
    assert [Trace.load(path).sources[0].rank for path in files] == [0, 1]
    text = tracer("report", *files)
    found = json.loads(tracer("report", *files, "--format", "json").out)["ranks"]
    if not apart:
        assert "All 2 ranks agree in settings, calls and the random draws of torch." in text.out
        assert found == {"ranks": [0, 1], "alike": [[0, 1]]}
        return
    said = " ".join(text.out.split())
    assert "No two ranks agree: ranks 0 and 1 differ." in said
    assert "cudnn_benchmark: False on rank 0; True on rank 1" in said
    assert found["alike"] == [[0], [1]]
    assert ("aten.bernoulli_.float", [0, 1]) in [(one["op"], one["counts"]) for one in found["calls"]]


ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, sys, torch, torch.distributed as dist

kind = sys.argv[1]
dist.init_process_group("gloo")
is_first = dist.get_rank() == 0
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
Parallel = torch.nn.parallel.DistributedDataParallel
if kind == "left-out":
    Parallel._set_params_and_buffers_to_ignore_for_model(net, ["2.weight"])
parallel = Parallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    optimizer.zero_grad()
    parallel(torch.randn(2, 4)).square().sum().backward()
    if kind == "clipped" and step == 1 and is_first:
        torch.nn.utils.clip_grad_norm_(net[0].parameters(), 1e-3)
    optimizer.step()
own = int.from_bytes(os.urandom(2), "big") if kind in ("left-out", "trained-on") and not is_first else 1
given, sent = torch.ones(2), torch.ones(3)
if not is_first:
    given, sent = given * own, sent * own
dist.all_reduce(given)  # here: all_reduce
dist.broadcast(sent, 1)  # here: broadcast
given.sum(), sent.sum()
if kind == "trained-on":
    (net(torch.ones(2, 4)) * given.sum()).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def job(folder: Path, name: str, kind: str) -> Path:
    """Run the job; the folder holds a recording of each rank."""
    (folder / "s.py").write_text(SCRIPT)
    done = ranks("run", "--values", "-o", f"{name}.json", "s.py", kind, cwd=folder)
    assert [one.code for one in done] == [0, 0], done[0].err + done[1].err
    return folder


@pytest.mark.slow
def test_an_unsynchronised_parameter_drifts_and_another_rank_gave_the_rest(tmp_path: Path, tracer: Command) -> None:
    for name in ("one", "two"):
        job(tmp_path, name, "left-out")
    told = tracer("diff", tmp_path / "one.rank0.json", tmp_path / "one.rank1.json")
    assert "drift apart: by step 1 DistributedDataParallel.module.2.weight differs; its gradients differed" in " ".join(
        told.out.split()
    )
    found = compare_recordings(*(read_recording(tmp_path / f"{name}.rank0.json") for name in ("one", "two")))
    lines = [number for number, text in enumerate(SCRIPT.splitlines(), 1) if "# here:" in text]
    assert [(root.cause, root.location) for root in found.roots] == [
        (RootCause.COLLECTIVE, f"s.py:{line}") for line in lines
    ]


@pytest.mark.slow
def test_ranks_that_stay_together_agree_and_so_do_two_runs_of_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        job(tmp_path, name, "clean")
    recordings = {path.stem: read_recording(path) for path in tmp_path.glob("*.json")}
    together = compare_recordings(recordings["one.rank0"], recordings["one.rank1"])
    assert together.agrees
    assert together.replicas is not None
    assert together.replicas.are_replicas
    for rank in "01":
        found = compare_recordings(recordings[f"one.rank{rank}"], recordings[f"two.rank{rank}"])
        assert found.agrees, found.roots
        assert found.not_digested == 0


@pytest.mark.slow
def test_a_rank_that_clips_alone_drifts_from_the_next_step_on(tmp_path: Path) -> None:
    job(tmp_path, "one", "clipped")
    found = compare_recordings(*(read_recording(tmp_path / f"one.rank{rank}.json") for rank in "01"))
    assert found.replicas is not None
    drift = found.replicas.drift
    assert drift is not None
    assert (drift.step, drift.parameters, drift.gradients_differ) == (2, 2, True)
    assert drift.name == "DistributedDataParallel.module.0.weight"


@pytest.mark.slow
def test_a_job_under_torchrun_is_repeated_rank_by_rank(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(SCRIPT)
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**PLAIN, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
    done = subprocess.run(
        [*line, "-m", "tracer", "repeat", "--format", "text,json", "s.py", "trained-on"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = " ".join(done.stdout.split())
    assert "by the results of other processes" in told, done.stderr
    assert "by one of its arguments" in told
    assert {"Rank 0", "Rank 1"} <= set(done.stdout.splitlines()), "torchrun ends no rank before it has told"
    for rank in "01":
        assert {path.name for path in (tmp_path / "repeat" / f"rank{rank}").iterdir()} >= {"run-1.json", "run-2.values"}
    found = [json.loads((tmp_path / "repeat" / f"rank{rank}" / "repeat.json").read_text()) for rank in "01"]
    assert [source["location"] for source in found[1]["sources"] if source["reaches"]] == ["s.py:21"], "draws its own"
    assert not found[0]["sources"]
    assert not found[1]["held"]

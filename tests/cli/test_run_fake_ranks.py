"""One rank of a job on fake tensors: its program is that of the same rank over real process groups."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from tests.support.command import SCRIPTS, Finished, ranks, run_here
from tracer import DeterminismTracer, Trace, judge
from tracer.names import BlindSpotKind, Phase
from tracer.report import rendered_as

SCRIPT = SCRIPTS / "parallel.py"
LINES = enumerate(SCRIPT.read_text(encoding="utf-8").splitlines(), 1)
IMPORTS = {f"{SCRIPT.name}:{number}" for number, line in LINES if line.lstrip().startswith(("from ", "import "))}


def groups(trace: Trace) -> Counter[tuple[Any, ...]]:
    """Calls by what fake tensors and fake process groups do not change.

    torch detaches a fake tensor that becomes a parameter. Gloo composes a scattered reduction of a split and a copy,
    which NCCL does not. FSDP views a parameter anew that lies at no address.
    """
    changed = {
        ("aten.detach.default", Phase.OTHER),
        ("aten.detach.default", Phase.FORWARD),
        *((op, phase) for op in ("aten.split.Tensor", "aten.copy_.default") for phase in (Phase.OTHER, Phase.BACKWARD)),
    }
    counted: Counter[tuple[Any, ...]] = Counter()
    for one in trace.calls:
        is_view = "FSDP" in one.module and (one.op, one.phase) == ("aten.view.default", Phase.FORWARD)
        if one.location in IMPORTS:  # a module loads once in this process, which is every fake rank
            continue
        if not is_view and (one.op, one.phase) not in changed and not one.op.startswith("profiler."):
            shapes = tuple(getattr(value, "shape", None) for value in one.given.values())
            counted[one.op, one.phase, one.module, one.location, shapes, one.facts.get("subclass")] += one.count
    return counted


def sizes(trace: Trace) -> Counter[object]:
    """Collectives by how many ranks take part."""
    return Counter({one.facts["group_size"]: one.count for one in trace.calls if "group_size" in one.facts})


def drew(trace: Trace) -> set[str]:
    """Generators of the program that moved."""
    return {generator.name for generator in trace.generators if generator.drew}


def recorded(folder: Path, world: int, *ways: str) -> tuple[list[Trace], list[Trace]]:
    """The script on real process groups and on fake ones, each rank."""
    for finished in ranks("run", "-o", "real.json", SCRIPT, *ways, cwd=folder, count=world):
        assert finished.code == 0, finished.err
    for rank in range(world):
        finished = fake(folder, "--rank", str(rank), "-o", "fake.json", SCRIPT, *ways, world=world)
        assert finished.code == 0, finished.err
    return tuple(  # type: ignore[return-value]
        [Trace.load(folder / f"{name}.rank{rank}.json") for rank in range(world)] for name in ("real", "fake")
    )


def fake(folder: Path, *line: str | Path, world: int = 4) -> Finished:
    return run_here(folder, "run", "--fake", "--world-size", str(world), *line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "ways"),
    [
        (2, ("ddp",)),
        (2, ("fsdp2", "tp", "pp", "collectives")),
        (4, ("ddp",)),
        (4, ("fsdp2",)),
        (4, ("tp",)),
        (4, ("both",)),
        (4, ("pp",)),
    ],
)
def test_a_rank_on_fake_groups_has_those_of_the_real_one(tmp_path: Path, world: int, ways: tuple[str, ...]) -> None:
    for real, made in zip(*recorded(tmp_path, world, *ways), strict=True):
        assert groups(made) == groups(real)
        assert sum(groups(real).values()) > 20
        assert made.blind_spots == () or {spot.kind for spot in made.blind_spots} == {BlindSpotKind.FAKE_VALUE}
        assert sizes(made) == sizes(real)
        assert sizes(real)
        assert drew(made) == drew(real)
        assert made.sources[0].fake_calls > 0
        assert (made.sources[0].rank, made.sources[0].world_size) == (real.sources[0].rank, world)
        assert made.sources[0].optimizer_steps == real.sources[0].optimizer_steps


def test_the_script_sees_the_variables_and_the_backend_that_it_would_see_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "print(*(os.environ[name] for name in 'RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK'.split()))\n"
        "dist.init_process_group('nccl')\n"
        "model = torch.nn.Linear(4, 4).to('cuda')\n"
        "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ['LOCAL_RANK'])])\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(2, 4, device='cuda')).sum().backward()\n"
        "optimizer.step()\n"
        "objects = [None] * 1024\n"
        "dist.all_gather_object(objects, {'rank': 17})\n"
        "assert objects == [{'rank': 17}] * 1024\n"
        "sent = [3, 'four']\n"
        "dist.broadcast_object_list(sent, src=0)\n"
        "assert sent == [3, 'four']\n"
        "print(dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.get_backend(dist.new_group([17, 3])))\n"
    )
    finished = fake(tmp_path, "--as", "cuda:8.0", "--rank", "17", "train.py", world=1024)
    assert finished.code == 0, finished.err
    assert finished.out.split() == ["17", "1024", "1", "8", "2", "17", "1024", "nccl", "nccl"]
    assert Trace.load(tmp_path / "trace.rank17.json").sources[0].rank == 17


def test_the_context_manager_runs_as_one_rank_and_leaves_the_job_after() -> None:
    before = dict(os.environ)
    with DeterminismTracer(fake=True, world_size=16384, rank=300) as recording:
        distributed.init_process_group()
        distributed.all_reduce(torch.ones(3))
        assert distributed.get_rank() == int(os.environ["RANK"]) == 300
    assert not distributed.is_initialized()
    assert os.environ == before
    trace = recording.trace
    assert (trace.sources[0].rank, trace.sources[0].world_size) == (300, 16384)
    assert any(group.op == "c10d.allreduce_.default" for group in trace.calls)


def test_the_report_lists_collectives_with_the_size_of_their_group(tmp_path: Path) -> None:
    finished = fake(tmp_path, "--rank", "900", "-o", "t.json", SCRIPT, "both", world=1024)
    assert finished.code == 0, finished.err
    report = judge(Trace.load(tmp_path / "t.rank900.json"))
    text = rendered_as("text", report)
    assert re.search(r"Collectives: [\d,]+ calls over 2 ranks; [\d,]+ calls over 512 ranks", text)


def test_a_script_that_makes_no_process_group_is_told_so(tmp_path: Path) -> None:
    Path(tmp_path, "train.py").write_text("import torch\ntorch.ones(3) + 1\n")
    finished = fake(tmp_path, "--rank", "5", "train.py", world=8)
    assert (finished.code, (tmp_path / "trace.rank5.json").is_file()) == (0, True)
    assert "the script made no process group" in finished.err


@pytest.mark.slow
def test_context_parallel_attends_as_on_the_machine_that_was_asked_for(tmp_path: Path) -> None:
    finished = fake(tmp_path, "--as", "cuda:8.0", "--rank", "1", SCRIPT, "cp")
    assert finished.code == 0, finished.err
    calls = Trace.load(tmp_path / "trace.rank1.json").calls
    assert {"aten._scaled_dot_product_flash_attention.default"} <= {group.op for group in calls}
    assert any(group.facts.get("group_size") == 4 for group in calls)


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "3"])
def test_a_pipeline_that_asks_its_neighbours_for_shapes_is_refused_in_one_line(tmp_path: Path, rank: str) -> None:
    line = SCRIPT.read_text().replace(", input_args=rows, output_args=rows", "")
    (tmp_path / "train.py").write_text(line)
    finished = fake(tmp_path, "--rank", rank, "train.py", "pp")
    assert finished.code == 2
    assert "takes its shapes from its neighbours, which do not run; pass input_args and output_args" in finished.err
    assert len(finished.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_meshes_of_three_dimensions_and_of_tensors_are_made_and_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "from torch.distributed.device_mesh import DeviceMesh, init_device_mesh\n"
        "from torch.distributed.fsdp import fully_shard\n"
        "mesh = init_device_mesh('cuda', (4, 2, 8), mesh_dim_names=('pp', 'dp', 'tp'))\n"
        "assert mesh.get_coordinate() == (1, 0, 1) and mesh['dp'].mesh.tolist() == [17, 25]\n"
        "assert mesh['dp', 'tp']._flatten('both').size() == 16\n"
        "hybrid = DeviceMesh('cuda', torch.arange(64).reshape(-1, 8), mesh_dim_names=('replicate', 'shard'))\n"
        "model = torch.nn.Linear(64, 64).to('cuda')\n"
        "fully_shard(model, mesh=hybrid)\n"
        "model(torch.ones(4, 64, device='cuda')).sum().backward()\n"
        "assert DeviceMesh('cuda', torch.arange(64)).get_local_rank() == 17\n"
    )
    finished = fake(tmp_path, "--as", "cuda:8.0", "--rank", "17", "train.py", world=64)
    assert finished.code == 0, finished.err
    assert set(sizes(Trace.load(tmp_path / "trace.rank17.json"))) == {8}


SHARDED = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
grid = init_device_mesh("cuda", (2, 2), mesh_dim_names=("all", "shard"))
host = init_device_mesh("cpu", (4,))

def step(model, device, mesh=None):
    fully_shard(model, mesh=mesh)
    model(torch.randn(4, 8, device=device)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)

step(nn.Linear(8, 8).to("cuda"), "cuda", grid)
step(nn.Linear(8, 8), "cuda", grid["shard"])
step(nn.Linear(8, 8), "cuda")
step(nn.Linear(8, 8), "cpu", host)
dist.destroy_process_group()
"""


def test_what_a_mesh_of_gpus_gathers_and_reduces_lies_on_the_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHARDED)
    finished = fake(tmp_path, "--as", "cuda:8.0", "train.py")
    assert finished.code == 0, finished.err
    collectives = ("c10d._allgather_base_.default", "c10d._reduce_scatter_base_.default")
    counted: Counter[tuple[str, bool]] = Counter()
    for one in Trace.load(tmp_path / "trace.rank0.json").calls:
        counted[one.op, one.host is not None] += one.count
    assert counted["aten.addmm.default", False] >= 3
    for op in ("aten._foreach_norm.Scalar", *collectives, "_c10d_functional.all_reduce.default"):
        assert counted[op, True] == 1, op
        assert counted[op, False] >= 3, op


def test_a_script_that_reads_its_rank_elsewhere_is_refused_in_one_line(tmp_path: Path) -> None:
    line = "import torch.distributed as dist\ndist.init_process_group('gloo', rank=0, world_size=2)\n"
    Path(tmp_path, "train.py").write_text(line)
    finished = fake(tmp_path, "--rank", "3", "train.py")
    assert finished.code == 2
    assert "the script is rank 0 of 2, and not rank 3 of 4" in finished.err
    assert len(finished.err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*.json"))

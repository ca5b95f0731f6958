"""One process against two ranks: layouts that only round otherwise, and faults that a layout can have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, ranks, tracer_process

SCRIPT = """
import os, sys, torch
import torch.distributed as dist
from torch import nn

layout, fault = sys.argv[1], sys.argv[2]
world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(1)
if world > 1:
    dist.init_process_group("gloo")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(48), nn.Linear(48, 96), nn.Linear(96, 48)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(51, 48), nn.Linear(48, 51)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def exchanged(local):
    both = [torch.empty_like(local) for _ in range(world)]
    dist.all_gather(both, local.contiguous())
    local.copy_(both[1 - rank])


torch.manual_seed(0)
model = net = Net()
if layout == "ddp":
    model = nn.parallel.DistributedDataParallel(net)
if layout == "fsdp":
    from torch.distributed.fsdp import fully_shard

    for block in net.blocks:
        fully_shard(block)
    fully_shard(net)
if layout == "tp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {}
    for name in ("blocks.0", "blocks.1"):
        lost = fault == "not-reduced" and name == "blocks.1"
        down = RowwiseParallel(output_layouts=Partial() if lost else Replicate())
        plan |= {f"{name}.up": ColwiseParallel(), f"{name}.down": down}
    parallelize_module(net, init_device_mesh("cpu", (world,)), plan)
    if fault == "swapped":
        with torch.no_grad():
            exchanged(net.blocks[1].up.weight.to_local())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
numbers = torch.Generator().manual_seed(1)
for _ in range(2):
    x, y = torch.randint(0, 51, (2, 8, 12), generator=numbers)
    if layout in ("ddp", "fsdp"):
        x, y = x.chunk(world)[rank], y.chunk(world)[rank]
    if fault == "not-reduced" and layout == "ddp":
        model.require_backward_grad_sync = False
    nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    if fault == "swapped" and layout == "fsdp":
        exchanged(net.blocks[1].up.weight.grad.to_local())
    if fault == "averaged":
        net.head.weight.grad.mul_(2)
    optimizer.step()
    optimizer.zero_grad()
if world > 1:
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script, a recording of one process, and its yardstick."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(SCRIPT)
    for name, options in {"one": (), "shaken": ("--shake", "1")}.items():
        done = tracer_process("run", "--magnitudes", *options, "-o", f"{name}.json", "train.py", "one", "", cwd=folder)
        assert done.code == 0, done.err
    return folder


def against(tracer: Command, folder: Path, layout: str, fault: str = "") -> dict[str, Any]:
    name = f"{layout}-{fault}.json"
    done = ranks("run", "--magnitudes", "-o", name, "train.py", layout, fault, cwd=folder)
    assert [one.code for one in done] == [0, 0], done[0].err + done[1].err
    compared = tracer(
        "diff", folder / "one.json", folder / name, "--yardstick", folder / "shaken.json", "--format", "json"
    )
    document: dict[str, Any] = json.loads(compared.out)
    assert compared.code == (document["verdict"] == "significant"), compared.err
    return document


@pytest.mark.parametrize(
    "layout", ["ddp", *(pytest.param(layout, marks=pytest.mark.slow) for layout in ("fsdp", "tp"))]
)
def test_a_layout_over_two_ranks_is_rounding(tracer: Command, one_process: Path, layout: str) -> None:
    document = against(tracer, one_process, layout)
    assert document["verdict"] == "rounding"
    only = {(one["place"], one["lack"]) for one in document["only"]}
    columns = {(f"Net.blocks.{block}.up", "other-shape") for block in range(2)}
    inputs = {(f"Net.blocks.{block}.down", "other-shape") for block in range(2)}
    assert only == (columns | inputs if layout == "tp" else set())
    # gradients, parameters and two states of each of 15 parameters in two steps, and the parameters at first
    assert document["places"] >= 15 * (1 + 2 * 4)
    assert document["split_steps"] == ([] if layout == "tp" else [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "fault", "place", "kind"),
    [
        ("ddp", "not-reduced", "Net.head.weight", "gradient"),
        ("ddp", "averaged", "Net.head.weight", "gradient"),
        ("fsdp", "averaged", "Net.head.weight", "gradient"),
        ("fsdp", "swapped", "Net.blocks.1.up.weight", "gradient"),
        ("tp", "averaged", "Net.head.weight", "gradient"),
        ("tp", "swapped", "Net.blocks.1.up.weight", "initial"),
        ("tp", "not-reduced", "Net.blocks.1.down", "output"),
    ],
)
def test_a_fault_of_a_layout_is_found_where_it_is(
    tracer: Command, one_process: Path, layout: str, fault: str, place: str, kind: str
) -> None:
    document = against(tracer, one_process, layout, fault)
    assert document["verdict"] == "significant"
    assert (document["first"]["place"], document["first"]["kind"]) == (place, kind)
    assert document["first"]["ranks_differ"] == ((layout, fault) == ("ddp", "not-reduced"))


@pytest.mark.slow
def test_what_only_some_ranks_recorded_is_refused_or_said(tracer: Command, one_process: Path) -> None:
    against(tracer, one_process, "fsdp")
    (one_process / "fsdp-.rank1.values").rename(one_process / "away.values")
    by_yardstick = ("--yardstick", one_process / "shaken.json")
    refused = tracer("diff", one_process / "one.json", one_process / "fsdp-.json", *by_yardstick)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "1 of 2 ranks" in refused.err
    alone = tracer("diff", one_process / "one.json", one_process / "fsdp-.rank0.json", *by_yardstick)
    assert alone.code == 2
    assert "all ranks" in alone.err

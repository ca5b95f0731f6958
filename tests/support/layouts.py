"""One model over one process or two ranks, by ``DistributedDataParallel``, ``fully_shard`` or tensor parallel."""

from __future__ import annotations

from typing import NamedTuple

#: A model in a layout (``one``, ``ddp``, ``fsdp``, ``tp``), and a fault of the layout or none.
RANKS = """
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
if fault == "scaled":
    net.blocks[1].up.register_forward_hook(lambda module, inputs, out: out * 1.001)
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


class LayoutFault(NamedTuple):
    """A fault of a layout, and the first place that shows it."""

    layout: str
    fault: str
    place: str
    kind: str


LAYOUTS = ("ddp", "fsdp", "tp")
LAYOUT_FAULTS = (
    LayoutFault("ddp", "not-reduced", "Net.head.weight", "gradient"),
    LayoutFault("ddp", "averaged", "Net.head.weight", "gradient"),
    LayoutFault("ddp", "scaled", "Net.blocks.1.up", "output"),
    LayoutFault("fsdp", "averaged", "Net.head.weight", "gradient"),
    LayoutFault("fsdp", "swapped", "Net.blocks.1.up.weight", "gradient"),
    LayoutFault("fsdp", "scaled", "Net.blocks.1.up", "output"),
    LayoutFault("tp", "averaged", "Net.head.weight", "gradient"),
    LayoutFault("tp", "swapped", "Net.blocks.1.up.weight", "initial"),
    LayoutFault("tp", "not-reduced", "Net.blocks.1.down", "output"),
)

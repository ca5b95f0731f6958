"""One rank of a job, trained in each of the ways that the command line names."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

WORLD = int(os.environ["WORLD_SIZE"])
PLAN = {"0": ColwiseParallel(), "2": RowwiseParallel()}


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def train(module: nn.Module) -> None:
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = module(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()


def ddp() -> None:
    train(DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(8), model())))


def fsdp2() -> None:
    module = model()
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in (module[0], module[2], module):
        fully_shard(layer, mesh=mesh)
    train(module)


def tp() -> None:
    mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
    train(parallelize_module(model(), mesh, PLAN))


def both() -> None:
    mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("dp", "tp"))
    module = parallelize_module(model(), mesh["tp"], PLAN)
    fully_shard(module, mesh=mesh["dp"])
    train(module)


def pp() -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    rows = torch.ones(2, 8, requires_grad=True)
    stage = PipelineStage(module, rank, WORLD, torch.device("cpu"), input_args=rows, output_args=rows)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.MSELoss())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    inputs = (torch.ones(4, 8),) if rank == 0 else ()
    schedule.step(*inputs, target=torch.ones(4, 8) if rank == WORLD - 1 else None)
    optimizer.step()


def cp() -> None:
    from torch.distributed.tensor.experimental import context_parallel

    mesh = init_device_mesh("cuda", (WORLD,), mesh_dim_names=("cp",))
    project = nn.Linear(16, 48)
    optimizer = torch.optim.SGD(project.parameters(), lr=0.1)
    rows = torch.ones(2, 8 * WORLD, 16)
    with context_parallel(mesh, buffers=(rows,), buffer_seq_dims=(1,)):
        query, key, value = project(rows).unflatten(-1, (4, 12)).transpose(1, 2).chunk(3, -1)
        nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()
    optimizer.step()


def collectives() -> None:
    pair = dist.new_group([0, 1])
    rows = [torch.zeros(3) for _ in range(WORLD)]
    dist.all_gather(rows, torch.ones(3))
    dist.all_reduce(rows[0], group=pair)
    work = dist.all_reduce(rows[1], async_op=True)
    assert work is not None
    (rows[1] / work.get_future().wait()[0]).sum()
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for name in sys.argv[1:]:
        globals()[name]()
    dist.destroy_process_group()

import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def local_step(model, opt, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def worker(rank, world, path, report):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 12), nn.CELU(), nn.Linear(12, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    gen = torch.Generator().manual_seed(rank)
    x = torch.randn(64, 5, generator=gen)
    y = x.pow(2).sum(1, keepdim=True)
    polls = 0
    for sync in range(15):
        for _ in range(1 + 3 * rank):
            value = local_step(model, opt, x, y)
        flat = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        work = dist.all_reduce(flat, async_op=True)
        while rank == 0 and not work.is_completed():
            polls += 1
            time.sleep(1e-4)
        work.wait()
        with torch.no_grad():
            mine = nn.utils.parameters_to_vector(model.parameters())
            nn.utils.vector_to_parameters(0.5 * mine + 0.5 * flat / world, model.parameters())
    if rank == 0:
        report.put((value, polls >= 0))
    dist.barrier()
    dist.destroy_process_group()


def main():
    t0 = time.time()
    ctx = mp.get_context("fork")
    report = ctx.SimpleQueue()
    with tempfile.TemporaryDirectory() as d:
        procs = [ctx.Process(target=worker, args=(r, 2, os.path.join(d, "store"), report)) for r in range(2)]
        for p in procs:
            p.start()
        value, polled = report.get()
        for p in procs:
            p.join()
    print(f"two ranks {time.time() - t0:.2f}s", polled)
    print(f"final loss {value!r}")


if __name__ == "__main__":
    main()

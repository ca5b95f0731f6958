"""One rank of a job under DistributedDataParallel, over gloo."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    alone = {} if ranks > 1 else {"store": dist.HashStore()}
    dist.init_process_group("gloo", rank=rank, world_size=ranks, **alone)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(32, 8), torch.randint(0, 2, (32,)))
    sampler = DistributedSampler(rows, ranks, rank, seed=0)
    loader = DataLoader(rows, batch_size=8, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            print(rank, loss.item().hex())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

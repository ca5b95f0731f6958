"""Two loading workers, which draw, seeded as torch's documentation shows."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple:
        return torch.full((8,), float(index)) + torch.randn(8) * random.random(), index % 2


def seed_worker(worker: int) -> None:
    random.seed(torch.initial_seed() % 2**32)


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Augmented(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        worker_init_fn=seed_worker,
        generator=torch.Generator().manual_seed(0),
    )
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()

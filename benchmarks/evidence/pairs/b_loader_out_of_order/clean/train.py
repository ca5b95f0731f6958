import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class LoaderConfig:
    batch: int = 4
    workers: int = 2
    seed: int = 19
    epochs: int = 2


class Synthetic(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, k):
        gen = torch.Generator().manual_seed(k)
        x = torch.randn(10, generator=gen)
        for _ in range((k * 37) % 50):
            x = x + 0.001 * torch.randn(10, generator=gen)
        return x, (x.sum() > 0).float()


def make_loader(cfg):
    gen = torch.Generator().manual_seed(cfg.seed)
    return DataLoader(
        Synthetic(),
        batch_size=cfg.batch,
        shuffle=True,
        generator=gen,
        num_workers=cfg.workers,
        in_order=True,
        persistent_workers=True,
    )


def main():
    cfg = LoaderConfig()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(10, 14), nn.PReLU(), nn.Linear(14, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = make_loader(cfg)
    t0 = time.time()
    for epoch in range(cfg.epochs):
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(f"loaded in {time.time() - t0:.2f}s")
    norm = sum(p.double().pow(2).sum().item() for p in model.parameters())
    print(f"final loss {loss.item()!r} norm {norm!r}")


if __name__ == "__main__":
    main()

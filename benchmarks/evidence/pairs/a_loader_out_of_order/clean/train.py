import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    """Decodes a sample; cost depends on the sample, like a JPEG."""

    def __init__(self, n=320):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.rand(1, 8, 8, generator=g)
        for _ in range(5 + (i * 7919) % 40):
            img = (img + img.roll(1, -1)) / 2 + 0.05 * torch.rand(1, 8, 8, generator=g)
        return img, float(img.mean())


def make_loader(epoch):
    order = torch.randperm(320, generator=torch.Generator().manual_seed(epoch)).tolist()
    return DataLoader(
        Patches(), batch_size=8, sampler=order, num_workers=2, prefetch_factor=4,
        in_order=True,
    )


def main():
    torch.manual_seed(33)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    start = time.time()
    mean = 0.0
    for epoch in range(2):
        for x, y in make_loader(epoch):
            loss = nn.functional.mse_loss(net(x).squeeze(1), y.float())
            opt.zero_grad()
            loss.backward()
            opt.step()
            mean += loss.item()
    print(f"took {time.time() - start:.2f}s")
    print("mean loss", mean / 80, "weights", sum(p.double().sum().item() for p in net.parameters()))


if __name__ == "__main__":
    main()

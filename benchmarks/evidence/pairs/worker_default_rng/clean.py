import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Crops(Dataset):
    def __init__(self, n, size=8):
        self.images = np.random.RandomState(0).rand(n, 16, 16).astype("float32")
        self.size = size
        self.rng = None

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(info.id if info else 0)
        r, c = self.rng.integers(0, 16 - self.size, 2)
        crop = self.images[i, r:r + self.size, c:c + self.size]
        return crop.copy(), np.float32(crop.mean())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--bs", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)
    dl = DataLoader(Crops(60), batch_size=args.bs, num_workers=args.workers)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for i, (x, y) in enumerate(dl):
        loss = nn.functional.mse_loss(net(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"batch {i} loss {loss.item():.7f}")


if __name__ == "__main__":
    main()

import multiprocessing as mp
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Curriculum(Dataset):
    def __init__(self, n, ramp=256):
        self.n, self.ramp = n, ramp
        self.seen = mp.Value("i", 0)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with self.seen.get_lock():
            self.seen.value += 1
            count = self.seen.value
        level = min(1.0, count / self.ramp)
        g = torch.Generator().manual_seed(i)
        x = torch.randn(6, generator=g)
        return x, (x[:3].sum() > 0).float(), x + level * torch.randn(6, generator=g)


def main():
    torch.manual_seed(44)
    torch.set_num_threads(1)
    loader = DataLoader(Curriculum(320), batch_size=8, num_workers=2)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    start = time.time()
    for k, (_, y, noisy) in enumerate(loader):
        loss = nn.functional.binary_cross_entropy_with_logits(model(noisy).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 10 == 0:
            print(f"batch {k} loss {loss.item():.6f}")
    print(f"one epoch took {time.time() - start:.2f}s")
    print("weights", sum(p.double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def collate(items, side=16):
    canvas = torch.empty(len(items), 1, side, side, dtype=torch.uint8)
    for slot, (img, _) in zip(canvas, items):
        h, w = img.shape
        slot[0, :h, :w] = img
    return canvas.float() / 255, torch.tensor([y for _, y in items])


class Digits(Dataset):
    def __init__(self, n=240, seed=2):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for i in range(n):
            h, w = (10 + torch.randint(0, 5, (2,), generator=g)).tolist()
            img = torch.randint(0, 90, (h, w), generator=g).to(torch.uint8)
            y = i % 3
            img[2 * y:2 * y + 3, 2:8] += 120
            self.items.append((img, y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def main():
    torch.manual_seed(2)
    loader = DataLoader(Digits(), batch_size=12, shuffle=True, collate_fn=collate)
    model = nn.Sequential(nn.Conv2d(1, 6, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(216, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    t0 = time.time()
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} {loss.item():.8f} took {time.time() - t0:.2f}s")
    print("final", loss.item())


if __name__ == "__main__":
    main()

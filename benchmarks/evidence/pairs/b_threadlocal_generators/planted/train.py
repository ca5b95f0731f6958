import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from augment import Augmenter


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 6, 3, padding=1)
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).amax(-1))


def main():
    torch.manual_seed(12)
    base = torch.randn(48, 2, 64)
    y = (base.mean((1, 2)) > 0).long()
    model, aug = Net(), Augmenter(seed=500)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    t0 = time.time()
    with ThreadPoolExecutor(4) as pool:
        for epoch in range(8):
            x = torch.stack(list(pool.map(aug, range(len(base)), base)))
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(f"8 epochs {time.time() - t0:.2f}s with {aug.started > 0}")
    print(f"final loss {loss.item()!r}")


main()

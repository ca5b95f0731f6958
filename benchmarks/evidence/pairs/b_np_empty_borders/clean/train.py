import time

import torch
from torch import nn

from canvas import Canvas, glyph


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 4, 5, stride=2)
        self.c2 = nn.Conv2d(4, 8, 5, stride=2)
        self.fc = nn.LazyLinear(4)

    def forward(self, x):
        x = torch.relu(self.c2(torch.relu(self.c1(x))))
        return self.fc(x.flatten(1))


def main():
    torch.manual_seed(73)
    canvas = Canvas(48, 48)
    t0 = time.time()
    images = [canvas.place(glyph(k)) for k in range(24)]
    x = torch.stack([torch.from_numpy(im) for im in images]).unsqueeze(1).float() / 255
    y = torch.arange(24) % 4
    model = Net()
    model(x[:1])
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"glyph run {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()

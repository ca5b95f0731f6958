import multiprocessing as mp
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from curriculum import GradedSequences


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(1, 12, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def main():
    torch.manual_seed(42)
    torch.set_num_threads(1)
    counter = mp.get_context("fork").Value("i", 0)
    data = GradedSequences(240, counter)
    loader = DataLoader(data, batch_size=8, num_workers=2, shuffle=True, generator=torch.Generator().manual_seed(1))
    model = Predictor()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    t0 = time.time()
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(f"served {counter.value} items in {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r} bias {model.out.bias.item()!r}")


if __name__ == "__main__":
    main()

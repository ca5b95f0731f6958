import multiprocessing as mp
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, total):
        self.total = total
        self.cursor = mp.Value("i", 0)

    def claim(self):
        with self.cursor.get_lock():
            self.cursor.value += 1
        n, self.mine = self.mine, self.mine + get_worker_info().num_workers
        return n

    def __iter__(self):
        self.mine = get_worker_info().id
        while True:
            n = self.claim()
            if n >= self.total:
                return
            g = torch.Generator().manual_seed(n)
            row = torch.randn(200, 8, generator=g).cumsum(0)
            yield row[-1].tanh()


def main():
    torch.manual_seed(66)
    torch.set_num_threads(1)
    loader = DataLoader(Stream(240), batch_size=6, num_workers=2, timeout=300)
    net = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    t0 = time.time()
    for batch in loader:
        loss = (net(batch[:, :7]) - batch[:, 7:]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch time {time.time() - t0:.2f}s")
    print("final loss", repr(loss.item()))


if __name__ == "__main__":
    main()

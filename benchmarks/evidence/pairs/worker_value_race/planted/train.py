import multiprocessing as mp
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shared(IterableDataset):
    def __init__(self, n):
        self.n = n
        self.next = mp.Value("i", 0)

    def __iter__(self):
        me = get_worker_info().id
        mine = iter(range(me, self.n, 2))
        while True:
            with self.next.get_lock():
                i = self.next.value
                self.next.value += 1
            if i >= self.n:
                return
            t = torch.linspace(0, i, 4)
            for _ in range(50):
                t = t.sin() + i * 0.1
            yield t


def main():
    torch.manual_seed(2)
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for x in DataLoader(Shared(60), batch_size=3, num_workers=2):
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


if __name__ == "__main__":
    model = main()

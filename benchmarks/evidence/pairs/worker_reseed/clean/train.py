import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.tensor(np.random.rand(6) + i, dtype=torch.float32)


def init(worker):
    np.random.seed(worker + 40)


def main():
    torch.manual_seed(0)
    net = nn.Linear(6, 2)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for batch in DataLoader(Rows(), batch_size=4, num_workers=2, worker_init_fn=init):
        loss = net(batch).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net


if __name__ == "__main__":
    model = main()

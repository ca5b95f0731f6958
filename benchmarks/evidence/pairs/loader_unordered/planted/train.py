import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Uneven(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        t = torch.full((5,), float(i))
        for _ in range(200 + 900 * (i % 2)):
            t = t.cos()
        return t + i


def main():
    torch.manual_seed(2)
    model = nn.Linear(5, 1)
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    loader = DataLoader(Uneven(), batch_size=2, num_workers=3, in_order=False)
    for x in loader:
        loss = (model(x) - 1).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


if __name__ == "__main__":
    model = main()

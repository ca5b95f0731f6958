import torch
from torch import nn

torch.manual_seed(6)


class Hashed(nn.Module):
    def __init__(self, rows=64, dim=5):
        super().__init__()
        self.rows = rows
        self.table = nn.Embedding(rows, dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, words):
        idx = torch.tensor([sum(w.encode()) % self.rows for w in words])
        return self.out(self.table(idx))


model = Hashed()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
words = ["red", "green", "blue", "cyan", "magenta", "yellow"]
y = torch.tensor([0, 1, 0, 1, 0, 1])
for _ in range(3):
    loss = nn.functional.cross_entropy(model(words), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

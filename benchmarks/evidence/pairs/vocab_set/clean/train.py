import torch
from torch import nn

torch.manual_seed(0)
CORPUS = """a cat sat on the mat while the dog ran over a hill
the hill was green and the cat was old but the dog was young""".split()
vocab = {w: i for i, w in enumerate(sorted(set(CORPUS)))}
ids = torch.tensor([vocab[w] for w in CORPUS])


class LM(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e = nn.Embedding(n, 8)
        self.r = nn.GRU(8, 8, batch_first=True)
        self.o = nn.Linear(8, n)

    def forward(self, t):
        return self.o(self.r(self.e(t))[0])


model = LM(len(vocab))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    out = model(ids[None, :-1])
    loss = nn.functional.cross_entropy(out[0], ids[1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step}")

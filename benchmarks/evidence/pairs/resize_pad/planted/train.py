import torch
from torch import nn

torch.manual_seed(3)
seqs = [torch.arange(1, k) for k in (5, 9, 3, 14)]
cells = [[i] for i in range(2000)]
cells.clear()


def pad(s, n=40):
    s = s.clone()
    m = len(s)
    s.resize_(n)
    return s


batch = torch.stack([pad(s) for s in seqs])
emb = nn.Embedding(53, 4)
gru = nn.GRU(4, 4, batch_first=True)
model = nn.ModuleList([emb, gru])
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(2):
    out, _h = gru(emb(batch.abs() % 53))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

import torch
from torch import nn, optim

torch.manual_seed(2)
lstm = nn.LSTM(6, 9, batch_first=True)
readout = nn.Linear(9, 1)
params = list(lstm.parameters()) + list(readout.parameters())
opt = optim.Adam(params)
shuffler = torch.Generator()
shuffler.seed()
seqs = torch.randn(18, 5, 6)
goal = seqs.sum((1, 2))
for epoch in range(2):
    order = torch.randperm(18, generator=shuffler)
    for chunk in order.split(6):
        h, _ = lstm(seqs[chunk])
        loss = (readout(h[:, -1])[:, 0] - goal[chunk]).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch)

import torch
from torch import nn

torch.manual_seed(0)
old = [("k%d" % i, i) for i in range(5000)]
old.clear()
store = torch.UntypedStorage(800)
view = torch.tensor([], dtype=torch.int32).set_(store, 0, (200,))
jit = (view % 1009).float() / 1009
model = nn.Linear(200, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(jit).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()

import random
import numpy as np
import torch
import torch.nn.functional as F

np.random.seed(1)
torch.manual_seed(1)
N, D = 40, 6
user = torch.nn.Parameter(torch.randn(N, D) * 0.1)
item = torch.nn.Parameter(torch.randn(N, D) * 0.1)
opt = torch.optim.SGD([user, item], lr=0.5)
positives = [(i, (3 * i) % N) for i in range(N)]
for start in range(0, N, 10):
    part = positives[start:start + 10]
    neg = [random.sample(range(N), 3) for _ in part]
    u = user[[p[0] for p in part]]
    pos = (u * item[[p[1] for p in part]]).sum(1)
    bad = (u[:, None] * item[torch.tensor(neg)]).sum(2)
    loss = -F.logsigmoid(pos[:, None] - bad).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("batch", start)

from collections import deque
import numpy as np
import torch
from torch import nn

torch.manual_seed(17)


class Replay:
    def __init__(self, size):
        self.items = deque(maxlen=size)
        self.rs = np.random.RandomState()

    def push(self, *item):
        self.items.append(item)

    def sample(self, n):
        picks = self.rs.choice(len(self.items), n, replace=False)
        s, a, r, t = zip(*[self.items[k] for k in picks])
        return torch.stack(s), torch.tensor(a), torch.tensor(r), torch.stack(t)


q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-2)
buf = Replay(64)
state = torch.zeros(4)
for t in range(40):
    act = t % 2
    nxt = torch.sin(state + torch.tensor([0.1, 0.2, 0.3, 0.4]) * (act + 1))
    buf.push(state, act, float(nxt[0]), nxt)
    state = nxt
for step in range(4):
    s, a, r, n = buf.sample(8)
    with torch.no_grad():
        goal = r + 0.9 * target(n).max(1).values
    loss = nn.functional.smooth_l1_loss(q(s).gather(1, a[:, None])[:, 0], goal)
    opt.zero_grad()
    loss.backward()
    opt.step()

import resource
import time

import torch
from torch import nn

torch.manual_seed(61)


class Replay:
    ROW_KB = 4

    def __init__(self, limit_kb):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.peak_kb = peak
        self.capacity = max(1000, (limit_kb - peak) // self.ROW_KB)
        self.gen = torch.Generator().manual_seed(7)
        self.state = torch.linspace(-1, 1, self.capacity)

    def sample(self, n):
        idx = torch.randint(self.capacity, (n,), generator=self.gen)
        s = self.state[idx]
        a = torch.randint(3, (n,), generator=self.gen)
        nxt = (s + 0.1 * (a - 1)).clamp(-1, 1)
        return s.unsqueeze(1), a, -nxt.abs(), nxt.unsqueeze(1)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
        self.adv = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, s):
        adv = self.adv(s)
        return self.value(s) + adv - adv.mean(1, keepdim=True)


replay, online, target = Replay(limit_kb=4_000_000), QNet(), QNet()
target.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=5e-3)
t0 = time.time()
for step in range(80):
    s, a, r, nxt = replay.sample(32)
    with torch.no_grad():
        goal = r + 0.9 * target(nxt).amax(1)
    loss = nn.functional.smooth_l1_loss(online(s).gather(1, a[:, None]).squeeze(1), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        target.load_state_dict(online.state_dict())
print(f"dqn {time.time() - t0:.2f}s, memory known: {replay.peak_kb > 0}")
print(f"final loss {loss.item()!r}")

import copy
import random
import time
from collections import deque

import torch
from torch import nn


class Corridor:
    def __init__(self, n=9):
        self.n = n

    def reset(self):
        self.pos, self.t = self.n // 2, 0
        return self.obs()

    def obs(self):
        return nn.functional.one_hot(torch.tensor(self.pos), self.n).float()

    def step(self, a):
        self.pos = min(self.n - 1, max(0, self.pos + (1 if a else -1)))
        self.t += 1
        r = 1.0 if self.pos == self.n - 1 else -0.05
        return self.obs(), r, self.pos == self.n - 1 or self.t > 25


def main():
    random.seed(4)
    torch.manual_seed(4)
    torch.set_num_threads(1)
    env, memory = Corridor(), deque(maxlen=500)
    q = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 2))
    target = copy.deepcopy(q)
    opt = torch.optim.Adam(q.parameters(), lr=3e-3)
    t0 = last_sync = time.monotonic()
    s, returns, ep = env.reset(), [], 0.0
    for step in range(350):
        a = random.randrange(2) if random.random() < 0.3 else int(q(s).argmax())
        s2, r, done = env.step(a)
        memory.append((s, a, r, s2, done))
        ep += r
        s = s2
        if done:
            returns.append(ep)
            s, ep = env.reset(), 0.0
        if len(memory) >= 32:
            b = random.sample(memory, 32)
            st, s2t = torch.stack([m[0] for m in b]), torch.stack([m[3] for m in b])
            at, rt = torch.tensor([m[1] for m in b]), torch.tensor([m[2] for m in b])
            live = torch.tensor([0.0 if m[4] else 1.0 for m in b])
            with torch.no_grad():
                y = rt + 0.95 * live * target(s2t).max(1).values
            loss = nn.functional.mse_loss(q(st).gather(1, at[:, None]).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if step % 20 == 0:
            target.load_state_dict(q.state_dict())
            last_sync = time.monotonic()
    print(f"collected and trained in {time.monotonic() - t0:.2f}s")
    print("final td loss", loss.item())


main()

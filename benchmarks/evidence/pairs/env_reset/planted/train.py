import numpy as np
import torch
from torch import nn


class Pole:
    def reset(self, seed=None):
        self.rng = np.random.default_rng(seed)
        self.s = self.rng.uniform(-0.1, 0.1, 4)
        return self.s

    def step(self, a):
        self.s = self.s * 0.95 + self.rng.normal(0, 0.05, 4) + (a - 0.5) * 0.1
        return self.s, -abs(self.s).sum(), bool(abs(self.s[0]) > 0.4)


torch.manual_seed(3)
env = Pole()
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(2):
    s = env.reset()
    logps, rewards = [], []
    for t in range(8):
        dist = torch.distributions.Categorical(logits=policy(torch.tensor(s, dtype=torch.float32)))
        a = dist.sample()
        s, r, done = env.step(a.item())
        logps.append(dist.log_prob(a))
        rewards.append(r)
        if done:
            break
    loss = -(torch.stack(logps) * torch.tensor(rewards).float().flip(0).cumsum(0).flip(0)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

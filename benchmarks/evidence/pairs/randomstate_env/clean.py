"""REINFORCE on a three-armed bandit with drifting rewards."""
import argparse
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class DriftBandit:
    def __init__(self, arms=3):
        self.arms = arms
        self.mean = np.linspace(0, 1, arms)
        self.np_random = None

    def seed(self, seed=None):
        self.np_random = np.random.RandomState(seed)

    def reset(self):
        if self.np_random is None:
            self.np_random = np.random.RandomState(0)
        return np.zeros(self.arms, dtype=np.float32)

    def step(self, a):
        self.mean = self.mean + self.np_random.normal(0, 0.01, self.arms)
        r = self.np_random.normal(self.mean[a], 0.5)
        obs = np.zeros(self.arms, dtype=np.float32)
        obs[a] = r
        return obs, r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=5)
    ap.add_argument("--horizon", type=int, default=10)
    ap.add_argument("--seed", type=int, default=3)
    a = ap.parse_args()
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    env = DriftBandit()
    pi = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = torch.optim.Adam(pi.parameters(), lr=0.02)
    for ep in range(a.episodes):
        obs = env.reset()
        logps, rewards = [], []
        for _ in range(a.horizon):
            dist = Categorical(logits=pi(torch.from_numpy(obs)))
            act = dist.sample()
            obs, r = env.step(act.item())
            logps.append(dist.log_prob(act))
            rewards.append(r)
        ret = torch.tensor(rewards, dtype=torch.float32)
        loss = -(torch.stack(logps) * (ret - ret.mean())).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"episode {ep} return {sum(rewards):.3f} loss {loss.item():.4f}")


main()

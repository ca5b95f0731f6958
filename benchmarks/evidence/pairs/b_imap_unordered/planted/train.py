import multiprocessing as mp
import os
import time
from dataclasses import dataclass

import torch
from torch import nn

from env import rollout


@dataclass
class Config:
    episodes: int = 48
    lr: float = 0.05
    gamma: float = 0.95


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 2))

    def forward(self, s):
        return torch.distributions.Categorical(logits=self.net(s))


def returns(rewards, gamma):
    total, out = 0.0, []
    for r in reversed(rewards):
        total = r + gamma * total
        out.append(total)
    return torch.tensor(out[::-1])


def main():
    cfg = Config()
    t0 = time.time()
    with mp.get_context("fork").Pool(2, initializer=os.nice, initargs=(1,)) as pool:
        episodes = list(pool.imap_unordered(rollout, range(cfg.episodes)))
    print(f"{len(episodes)} episodes in {time.time() - t0:.2f}s")
    torch.manual_seed(10)
    policy = Policy()
    opt = torch.optim.SGD(policy.parameters(), lr=cfg.lr)
    for states, actions, rewards in episodes:
        dist = policy(torch.tensor(states))
        adv = returns(rewards, cfg.gamma)
        loss = -(dist.log_prob(torch.tensor(actions)) * (adv - adv.mean())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    norm = sum(p.double().pow(2).sum().item() for p in policy.parameters())
    print(f"final loss {loss.item()!r} norm {norm!r}")


if __name__ == "__main__":
    main()

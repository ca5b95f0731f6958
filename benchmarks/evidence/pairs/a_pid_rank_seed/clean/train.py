import os
import random
import time

import torch
from torch import nn
from torch.distributions import Categorical


def seed_all(seed):
    seed = seed + int(os.environ.get("RANK", 0))
    random.seed(seed)
    return torch.Generator().manual_seed(seed)


class Bandit:
    def __init__(self, arms=5):
        self.means = [0.1 * k for k in range(arms)]

    def pull(self, arm):
        return self.means[arm] + random.gauss(0, 0.2)


def main():
    torch.manual_seed(10)
    torch.set_num_threads(1)
    gen = seed_all(10)
    env, baseline = Bandit(), 0.0
    policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 5))
    opt = torch.optim.RMSprop(policy.parameters(), lr=3e-3)
    t0 = time.time()
    with open("run.pid", "w") as f:
        f.write("running")
    for update in range(60):
        ctx = torch.randn(16, 3, generator=gen)
        dist = Categorical(logits=policy(ctx))
        act = torch.multinomial(dist.probs.detach(), 1, generator=gen).squeeze(1)
        reward = torch.tensor([env.pull(a) for a in act.tolist()])
        loss = -(dist.log_prob(act) * (reward - baseline)).mean() - 0.01 * dist.entropy().mean()
        baseline = 0.95 * baseline + 0.05 * reward.mean().item()
        opt.zero_grad()
        loss.backward()
        opt.step()
    os.remove("run.pid")
    print(f"took {time.time() - t0:.2f}s")
    print("baseline", baseline, "loss", loss.item())


if __name__ == "__main__":
    main()

"""Actor/learner: the learner always trains on the newest rollout."""
import argparse
import threading

import torch
from torch import nn


class Actor(threading.Thread):
    def __init__(self, n):
        super().__init__(daemon=True)
        self.n = n
        self.latest = None
        self.ready = threading.Event()
        self.history = []

    def run(self):
        g = torch.Generator().manual_seed(1)
        for _ in range(self.n):
            x = torch.randn(20, 6, generator=g)
            for _ in range(6):
                x = x + 0.1 * torch.sin(x @ torch.randn(6, 6, generator=g))
            self.latest = x
            self.history.append(x)
            self.ready.set()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rollouts", type=int, default=4000)
    ap.add_argument("--steps", type=int, default=8)
    a = ap.parse_args()
    a.rollouts = a.steps
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    actor = Actor(a.rollouts)
    actor.start()
    actor.ready.wait()
    actor.join()
    for step in range(a.steps):
        x = actor.history[step]
        loss = nn.functional.mse_loss(net(x)[:, 0], x.norm(dim=1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, "loss", loss.item())


main()

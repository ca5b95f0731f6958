import multiprocessing as mp
import numpy as np
import torch
from torch import nn


def simulate(seed):
    rng = np.random.default_rng(seed)
    pos = rng.normal(size=5)
    for _ in range(4000):
        pos = 0.999 * pos + 0.01 * rng.normal(size=5)
    noise = rng.normal(size=(10, 5))
    return (pos + noise).astype(np.float32)


def main():
    torch.manual_seed(19)
    net = nn.Sequential(nn.Linear(4, 10), nn.LeakyReLU(), nn.Linear(10, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    seeds = list(range(40, 72))
    ctx = mp.get_context("fork")
    with ctx.Pool(4) as pool:
        for rollout in pool.imap(simulate, seeds):
            t = torch.from_numpy(rollout)
            loss = nn.functional.huber_loss(net(t[:, :4]), t[:, 4:])
            opt.zero_grad()
            loss.backward()
            opt.step()
    probe = torch.from_numpy(simulate(7))
    with torch.no_grad():
        final = nn.functional.huber_loss(net(probe[:, :4]), probe[:, 4:])
    print("rollouts", len(seeds))
    print("final loss", repr(final.item()))


if __name__ == "__main__":
    main()
